import type { Collection, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { type DeadLetterFilter, filterOf, LISTED, mailboxesOf } from './dead-letters.ts';

/** Dead commands of one kind that died of one cause. */
export interface DeadGroup {
  queue: Queue;
  fingerprint: string;
  count: number;
  /** How many of them an operator has acknowledged. */
  acknowledged: number;
  firstAt: Date;
  lastAt: Date;
  /** Id of one command of the group. */
  example: string;
}

/** The groups of dead letters. `more`: as many letters were read as a count may read, so that each count is a lower bound. */
export interface DeadGroups {
  groups: DeadGroup[];
  more: boolean;
}

/** Letters of one mailbox that are counted. A count stays within its time limit however large the pile is. */
const MAX_COUNTED = 10_000;

/** Returns the dead letters of every mailbox, grouped by queue and cause, largest group first. */
export async function deadGroups(
  mongo: Mongo,
  { cause, ...wanted }: DeadLetterFilter = {},
  limit = MAX_COUNTED,
): Promise<DeadGroups> {
  const found = await Promise.all(mailboxesOf(mongo).map((mailbox) => groupsIn(mailbox, wanted, limit)));
  const groups = found
    .flatMap((one) => one.groups)
    .filter(({ fingerprint }) => cause === undefined || fingerprint === cause);
  return { groups: groups.sort((a, b) => b.count - a.count), more: found.some(({ more }) => more) };
}

/** Groups the first `limit` letters of a mailbox that an index finds; a cause is in no index, so that it is chosen afterwards. */
async function groupsIn(mailbox: Collection<Command>, wanted: DeadLetterFilter, limit: number): Promise<DeadGroups> {
  const groups = await mailbox
    .aggregate<DeadGroup>(
      [
        ...stagesOf(wanted),
        { $limit: limit },
        {
          $group: {
            _id: { queue: '$queue', fingerprint: '$lastError.fingerprint' },
            count: { $sum: 1 },
            acknowledged: { $sum: { $cond: [{ $eq: ['$letter', 'ACKNOWLEDGED'] }, 1, 0] } },
            firstAt: { $min: '$settledAt' },
            lastAt: { $max: '$settledAt' },
            example: { $first: '$_id' },
          },
        },
        {
          $project: {
            _id: 0,
            queue: '$_id.queue',
            fingerprint: '$_id.fingerprint',
            count: 1,
            acknowledged: 1,
            firstAt: 1,
            lastAt: 1,
            example: 1,
          },
        },
      ],
      { hint: indexFor(wanted), maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return { groups, more: groups.reduce((sum, { count }) => sum + count, 0) >= limit };
}

/** Returns the index that reads the fewest letters besides those of the filter. */
function indexFor({ queue, subject, since }: DeadLetterFilter): string {
  if (subject !== undefined) return 'of_subject';
  return queue !== undefined && since === undefined ? 'dead_of_queue' : 'dead_letters';
}

/** Returns the stages that choose. MongoDB joins them; the first one alone decides on the index and the shards. */
function stagesOf(wanted: DeadLetterFilter): Document[] {
  const { letter } = wanted;
  const isMarked = letter === undefined ? { $in: LISTED } : { $in: [letter] };
  return [{ $match: { status: 'DEAD', letter: isMarked } }, { $match: filterOf(wanted) }];
}
