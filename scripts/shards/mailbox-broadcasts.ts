import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { type Broadcast, broadcasts } from './judge.ts';

const ONE_ERASURE = 'the export or the erasure of a person';
const DEPTHS = 'shared/infra/mongo/mailbox/queue-depths.ts';
const FAILING = 'shared/infra/mongo/mailbox/failing.ts';
const SUSPECTS = 'shared/infra/mongo/mailbox/suspects.ts';
const DEAD_LETTERS = 'shared/infra/mongo/mailbox/dead-letters.ts';
const DEAD_GROUPS = 'shared/infra/mongo/mailbox/dead-groups.ts';
const BULK_ACTS = 'shared/infra/mongo/operations/bulk-acts.ts';
const FINDER = 'shared/infra/mongo/person/find.ts';
const EXPORT = 'shared/infra/mongo/person/export.ts';

/**
 * Statements on commands, notices and deliveries that go to every shard. A statement on one command names its key. Those below search for
 * commands by another field.
 */
export const MAILBOX_BROADCASTS: readonly Broadcast[] = [
  ...broadcasts(
    {
      why: 'a worker finds due commands of its queues, whatever their keys are',
      rate: 'one for each worker process and WORKER_POLL_INTERVAL_MS, and one for each 200 due commands of a queue',
      files: ['shared/infra/mongo/mailbox/due.ts'],
    },
    [
      ...eachMailbox('find {nextRunAt $lte, queue, status}'),
      ...eachMailbox('find {$or(nextRunAt $lte, queue, status|nextRunAt $lte, queue, status)}'),
      'commands find {nextRunAt $lte, organizationId $gt, queue, status}',
    ],
  ),
  ...broadcasts(
    {
      why: 'a worker finds suspects of its queues, whatever their keys are',
      rate: 'one for each worker process and five seconds',
      files: [SUSPECTS],
    },
    eachMailbox('find {lapses, lockedUntil, queue $in, status}'),
  ),
  ...broadcasts(
    { why: 'operators see the suspects of all queues', rate: 'as the depth of a queue', files: [SUSPECTS] },
    eachMailbox('find {lapses, status}'),
  ),
  ...broadcasts(
    {
      why: 'the depth of a queue counts all of its commands',
      rate: 'a scrape of the metrics, a command of an operator, or a page of a bulk replay',
      files: [DEPTHS],
    },
    [
      ...eachMailbox('find {nextRunAt $lte, queue, status}'),
      ...eachMailbox('aggregate {nextRunAt $gt, queue, status}'),
      ...eachMailbox('aggregate {nextRunAt $lte, queue, status}'),
      ...eachMailbox('aggregate {maxAttempts $lt, queue, status}'),
    ],
  ),
  ...broadcasts(
    { why: 'operators see the failing commands of all queues', rate: 'as the depth of a queue', files: [FAILING] },
    eachMailbox('aggregate {failing, queue, status}'),
  ),
  ...broadcasts(
    {
      why: 'dead letters are counted and listed whatever their keys are',
      rate: 'as the depth of a queue',
      files: [DEPTHS, DEAD_GROUPS],
    },
    eachMailbox('aggregate {letter $in, status}'),
  ),
  ...broadcasts(
    {
      why: 'a bulk act and a list of dead letters walk a queue by id, whatever their keys are',
      rate: 'one of each for 2,000 letters that are read, or for each page of letters',
      files: [DEAD_LETTERS],
    },
    [
      ...eachMailbox('find {_id $gt, queue, status}'),
      ...eachMailbox('aggregate {_id $gt, letter $in, queue, status}'),
      // No test walks so many letters of the other mailboxes.
      'commands aggregate {_id $gt $lte, letter $in, queue, status}',
    ],
  ),
  ...broadcasts({ why: 'bulk acts are listed newest first', rate: 'a command of an operator', files: [BULK_ACTS] }, [
    'commands find {queue}',
  ]),
  ...broadcasts(
    { why: 'an operator names a command by its id', rate: 'a command of an operator', files: [DEAD_LETTERS] },
    eachMailbox('find {_id}'),
  ),
  ...broadcasts(
    {
      why: 'a ring of an earlier version has no key',
      rate: 'only while processes of an earlier version ring',
      files: ['shared/infra/mongo/mailbox/mailbox.ts'],
    },
    ['attempt_notices find {_id}'],
  ),
  ...broadcasts(
    {
      why: 'the sweep finds settlements of all generations',
      rate: 'one for each UPKEEP_INTERVAL_MS',
      files: ['shared/infra/mongo/classifier/unpaid-generations.ts'],
    },
    ['commands find {createdAt $lte, nextRunAt $lte, queue, replays, status}'],
  ),
  ...broadcasts(
    {
      why: 'the rounds of an expired job are found by the job',
      rate: 'one for each expired job, and only with a retention',
      files: ['shared/infra/mongo/person/retention.ts'],
    },
    ['commands delete {subject}'],
  ),
  ...broadcasts({ why: 'commands about a person are found by their subject', rate: ONE_ERASURE, files: [FINDER] }, [
    ...eachMailbox('aggregate {subject}'),
    ...eachMailbox('aggregate {subject $in}'),
    ...eachMailbox('find {subject}'),
    'attempt_notices find {lockedUntil $gt, subject}',
    'commands find {lockedUntil $gt, subject}',
    'commands find {queue, subject}',
    'commands find {queue $ne, status, subject}',
    'commands find {$or(body.studentId $ne|body.client $ne|body.handoff.feedback $ne|body.handoff.criteria $ne), subject}',
    'notification_deliveries find {subject $in}',
  ]),
  ...broadcasts(
    { why: 'commands about a person are found by their subject', rate: 'the export of a person', files: [EXPORT] },
    [...eachMailbox('find {subject}'), 'notification_deliveries find {subject $in}'],
  ),
];

function eachMailbox(statement: string): string[] {
  return MAILBOXES.map((name) => `${name} ${statement}`);
}
