import { operator } from '#api/http/guards/tokens.ts';
import { type Call, type Reply, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import type { DeadLetterFilter } from '#infra/mongo/mailbox/dead-letters.ts';
import { findBulk, listBulks, postBulk, previewBulk, stopBulk } from '#infra/mongo/operations/bulk-acts.ts';
import {
  actOnIds,
  type DeadOrder,
  findLetter,
  ofPreview,
  PAGE_LETTERS,
  readLetters,
} from '#infra/mongo/operations/dead-acts.ts';
import { logActs, MIN_REASON, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type {
  BulkActQuery,
  BulkActStop,
  DeadActOrder,
  DeadLetterListQuery,
  DeadLetterQuery,
} from '#shared/generated/operations.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { Now } from '#shared/kernel/time.ts';
import { bulkView, DEAD_ACTS, type DeadActName, PER_SECOND } from '#shared/operations/bulk-act.ts';
import { type GivenFilter, type LetterFilter, letterView, readLetterFilter } from '#shared/operations/dead-letter.ts';

export interface DeadLetterDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  log: Pick<Log, 'info'>;
  opsToken: Secrets | undefined;
  /** Claims of a bulk act before it is dead. */
  commandAttempts: number;
}

const PATH = '/v1/ops/dead-letters';
const JOBS = 20;

const SUMMARIES: Readonly<Record<DeadActName, string>> = {
  replay: 'Replay dead letters, once per death; a dry run unless `dryRun` is false',
  ack: 'Acknowledge dead letters, which ends their alarm; a dry run unless `dryRun` is false',
  drop: 'Drop dead letters for good; a dry run unless `dryRun` is false',
};

const EFFECTS: Readonly<Record<DeadActName, string>> = {
  replay:
    'Queues dead letters anew, each once per death. `chargeSuperseded` is the consent to charge answers that no request returns any longer.',
  ack: 'Ends the alarm of dead letters, which stay in the list.',
  drop: 'Takes dead letters from the list for good; none is carried out.',
};

const REPETITION =
  'The letters are those of `ids` (200), or all of a `filter` (202), which becomes a bulk act that goes on without its caller. Without `dryRun: false` nothing changes, and the reply is a 200 that counts them. A repeat with the same `key` returns the same bulk act; with `ids`, letters that are done already are skipped. Each letter is a row of the audit, with the reason.';

const DEAD_LETTERS: Tag = {
  name: 'Operations: dead letters',
  description: 'Commands that failed at every attempt, and what operators do with them.',
};

/**
 * Returns the routes of operators for dead letters. They answer as `examhall dead` does with `--json`. A letter is shown without its
 * body, which `dead show` prints.
 */
export function deadLetterRoutes(deps: DeadLetterDeps): Route[] {
  const common = { tag: DEAD_LETTERS, guards: [operator(deps)] } as const;
  const read = { ...common, method: 'GET', errors: [] } as const;
  const write = { ...common, method: 'POST' } as const;
  const bulkReply = { schema: 'operations/bulk-act', description: 'The bulk act' };
  return [
    {
      ...read,
      path: PATH,
      operation: 'getDeadLetters',
      summary: 'Get the dead letters, grouped by queue and cause',
      description:
        'Returns the dead letters by queue and cause, the largest group first, each with the id of an example.',
      query: 'operations/dead-letter-query',
      replies: [{ status: 200, schema: 'operations/dead-letter-groups', description: 'Groups of dead letters' }],
      handle: (call: Call<never, DeadLetterQuery>) => getGroups(deps, call),
    },
    {
      ...read,
      path: `${PATH}/list`,
      operation: 'listDeadLetters',
      summary: 'List dead letters one by one, in pages',
      description:
        'Walks the dead letters by queue and id, each once, also while others are replayed. `nextCursor` of a reply is the `cursor` of the next one, with the same filter.',
      query: 'operations/dead-letter-list-query',
      replies: [{ status: 200, schema: 'operations/dead-letter-page', description: 'A page of dead letters' }],
      handle: (call: Call<never, DeadLetterListQuery>) => listLetters(deps, call),
    },
    {
      ...read,
      path: `${PATH}/jobs`,
      operation: 'listBulkActs',
      summary: 'List bulk acts on dead letters, newest first',
      description: 'Returns the newest bulk acts with their progress.',
      query: 'operations/bulk-act-query',
      replies: [{ status: 200, schema: 'operations/bulk-act-list', description: 'Bulk acts' }],
      async handle({ query }: Call<never, BulkActQuery>) {
        return { status: 200, data: { jobs: (await listBulks(deps.mongo, query.limit ?? JOBS)).map(bulkView) } };
      },
    },
    {
      ...read,
      path: `${PATH}/jobs/:id`,
      operation: 'getBulkAct',
      summary: 'Get a bulk act with its progress',
      description: 'Returns a bulk act with its progress. Poll it until `state` is `DONE`, `STOPPED` or `DEAD`.',
      params: { id: 'Id of the bulk act' },
      replies: [{ status: 200, ...bulkReply }],
      errors: ['BULK_ACT_NOT_FOUND'],
      async handle({ params }: Call) {
        const found = await findBulk(deps.mongo, params.id ?? '');
        return found === null ? { rejected: 'BULK_ACT_NOT_FOUND' } : { status: 200, data: bulkView(found) };
      },
    },
    {
      ...write,
      path: `${PATH}/jobs/:id/stop`,
      operation: 'stopBulkAct',
      summary: 'Stop a bulk act before its next letter',
      description:
        'Ends a bulk act before its next letter; what it has done stays done. A repeat while it stops returns the same; afterwards it is 409 `BULK_ACT_ENDED`.',
      params: { id: 'Id of the bulk act' },
      body: { schema: 'operations/bulk-act-stop', maxBytes: SMALL_BODY },
      replies: [{ status: 200, ...bulkReply }],
      errors: ['BULK_ACT_NOT_FOUND', 'BULK_ACT_ENDED'],
      handle: (call: Call<BulkActStop>) => stop(deps, call),
    },
    {
      ...read,
      path: `${PATH}/:id`,
      operation: 'getDeadLetter',
      summary: 'Get one command, also one that is not dead, without its body',
      description:
        "Returns one command, also one that is not dead. Its body is left out, because it may hold a student's text: `examhall dead show` prints it.",
      params: { id: 'Id of the command' },
      replies: [{ status: 200, schema: 'operations/dead-letter-detail', description: 'The command' }],
      errors: ['DEAD_LETTER_NOT_FOUND'],
      async handle({ params }: Call) {
        const found = await findLetter(deps.mongo, params.id ?? '', deps.now());
        if (found === null) return { rejected: 'DEAD_LETTER_NOT_FOUND' };
        const { command, state, superseded } = found;
        return { status: 200, data: { ...letterView(command), state, superseded } };
      },
    },
    ...DEAD_ACTS.map(
      (act): Route => ({
        ...write,
        path: `${PATH}/${act}`,
        operation: `${act}DeadLetters`,
        summary: SUMMARIES[act],
        description: `${EFFECTS[act]} ${REPETITION}`,
        body: { schema: 'operations/dead-act-order', maxBytes: SMALL_BODY },
        replies: [
          { status: 200, schema: 'operations/dead-act-result', description: 'Result for `ids`, or of a dry run' },
          { status: 202, schema: 'operations/bulk-act', description: 'The bulk act of a `filter`' },
        ],
        errors: ['BULK_ACT_KEY_REUSED', 'PERSON_ERASED'],
        handle: (call: Call<DeadActOrder>) => carryOut(deps, act, call),
      }),
    ),
  ];
}

async function getGroups({ mongo }: DeadLetterDeps, { query }: Call<never, DeadLetterQuery>) {
  const filter = readFilter(query, '');
  if ('rejected' in filter) return filter;
  return { status: 200, data: await deadGroups(mongo, { ...filter, ...markOf(query) }) };
}

async function listLetters({ mongo }: DeadLetterDeps, { query }: Call<never, DeadLetterListQuery>) {
  const filter = readFilter(query, '');
  if ('rejected' in filter) return filter;
  const wanted = { ...filter, ...markOf(query) };
  const data = await readLetters(mongo, wanted, { cursor: query.cursor ?? null, limit: query.limit ?? PAGE_LETTERS });
  if (data === null) return invalid('/cursor', 'must be a `nextCursor` of a reply with the same filter');
  return { status: 200, data };
}

function markOf({ dropped }: DeadLetterQuery): Pick<DeadLetterFilter, 'letter'> {
  return dropped === true ? { letter: 'DROPPED' } : {};
}

async function carryOut(
  deps: DeadLetterDeps,
  act: DeadActName,
  { body, identity, requestId }: Call<DeadActOrder>,
): Promise<Reply | Rejection> {
  const { ids, filter, dryRun } = body;
  const fault = faultOfReason(body);
  if (fault !== null) return fault;
  if ((ids == null) === (filter == null)) return invalid('', 'exactly one of `ids` and `filter` is required');
  const chargeSuperseded = body.chargeSuperseded ?? false;
  if (chargeSuperseded && act !== 'replay') return invalid('/chargeSuperseded', 'is only for a replay');
  const order: DeadOrder = { act, chargeSuperseded };
  const by = actOf(deps, { identity, requestId }, body.reason);
  const isDry = dryRun ?? true;
  if (ids != null)
    return { status: 200, data: await actOnIds(deps.mongo, order, [...new Set(ids)], isDry ? null : by) };
  const wanted = readFilter(filter ?? {}, '/filter');
  if ('rejected' in wanted) return wanted;
  if (Object.keys(wanted).length === 0) return invalid('/filter', 'must have at least one field');
  if (isDry)
    return { status: 200, data: ofPreview(await previewBulk(deps.mongo, { ...order, filter: wanted }, by.now)) };
  const { key, perSecond } = body;
  const request = { ...order, filter: wanted, perSecond: perSecond ?? PER_SECOND, key: key ?? newId(by.now) };
  const posted = await postBulk(deps.mongo, request, by, { maxAttempts: deps.commandAttempts });
  switch (posted.kind) {
    case 'erased':
      return { rejected: 'PERSON_ERASED' };
    case 'reused':
      return { rejected: 'BULK_ACT_KEY_REUSED' };
    case 'posted':
      return { status: 202, data: bulkView(posted.command) };
  }
}

async function stop(
  deps: DeadLetterDeps,
  { params, body, identity, requestId }: Call<BulkActStop>,
): Promise<Reply | Rejection> {
  const fault = faultOfReason(body);
  if (fault !== null) return fault;
  const found = await findBulk(deps.mongo, params.id ?? '');
  if (found === null) return { rejected: 'BULK_ACT_NOT_FOUND' };
  const isStopped = await stopBulk(deps.mongo, found, actOf(deps, { identity, requestId }, body.reason));
  const now = bulkView((await findBulk(deps.mongo, found._id)) ?? found);
  // A repeated stop is answered as the first one was.
  return isStopped || now.state === 'STOPPING' ? { status: 200, data: now } : { rejected: 'BULK_ACT_ENDED' };
}

/** The schema counts the blanks around a reason too. The audit stores the reason without them. */
function faultOfReason({ reason }: { reason: string }): Rejection | null {
  if (reason.trim().length >= MIN_REASON) return null;
  return invalid('/reason', `must have at least ${MIN_REASON} characters besides blanks around it`);
}

function actOf(
  { now, log }: DeadLetterDeps,
  { identity, requestId }: Pick<Call, 'identity' | 'requestId'>,
  reason: string,
): OperatorAct {
  const committed = logActs(log, { requestId });
  return { operator: identity.operator ?? 'unknown', reason: reason.trim(), now: now(), committed };
}

/** Returns the filter of a query or a body, or the rejection of its queue. The schema has checked its times. `at` is the path of the filter. */
function readFilter(given: GivenFilter, at: string): LetterFilter | Rejection {
  const filter = readLetterFilter(given, { queues: QUEUES, timeOf: (text) => new Date(text) });
  return 'fault' in filter ? invalid(`${at}/queue`, `must be one of ${QUEUES.join(', ')}`) : filter;
}

function invalid(path: string, message: string): Rejection {
  return { rejected: 'VALIDATION_FAILED', details: [{ path, message }] };
}
