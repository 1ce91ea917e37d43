import type { ClientSession, Document } from 'mongodb';
import { BY_ID, type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { gatherTransactions } from '#infra/mongo/gathered-transactions.ts';
import { guardedUpdate, literal, msOf, NOW_MS, ofMany } from '#infra/mongo/guarded-update.ts';
import { COMMANDS, type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction, inTransactionOf } from '#infra/mongo/transaction.ts';
import { applyWrites, inserts } from '#infra/mongo/writes.ts';
import { type Attempt, roundOf, type Sitting, type SubmitSource } from '#shared/attempt/attempt.ts';
import { gradingOrder, type SubmitCause, submittedOrder } from '#shared/attempt/commands.ts';
import { EVENT_ATTEMPTS } from '#shared/kernel/command.ts';
import { attempts, whereKey, whereKeys } from './collections.ts';

/** A submit. */
export interface Submit extends SubmitCause {
  /** The attempt in the round that its caller has read. Another round is not submitted. */
  attempt: Sitting;
  source: SubmitSource;
  /** Submit only if the deadline passed at least this long ago (ms). null: submit at any time. */
  overdueByMs: number | null;
  maxAttempts: number;
  now: number;
  /** True if the submit is published to subscribers. Default: false. */
  isWanted?: boolean;
}

interface WantedSubmit extends Submit {
  budgetMs: number;
  /** Runs the transaction. Later reads in it show the submit that made this one change nothing. Default: a session of its own. */
  session?: ClientSession;
}

type SubmitResult = { kind: 'submitted'; command: CommandOf<'grading'> } | { kind: 'unchanged' };

/**
 * Changes IN_PROGRESS to SUBMITTED and posts the grading command, both or neither. A student's submit counts at its own time, a
 * TIMEOUT at the earlier of now and the deadline. `unchanged`: the attempt was not in progress, or is not overdue.
 */
export async function markSubmitted(
  mongo: Mongo,
  wanted: WantedSubmit,
  posted = commandsOf(wanted),
): Promise<SubmitResult> {
  const { budgetMs, session: given } = wanted;
  const write = (session: ClientSession) => submitIn(mongo, wanted, session, posted);
  return given === undefined ? inTransaction(mongo, budgetMs, write) : inTransactionOf(mongo, given, budgetMs, write);
}

/** Submits as `markSubmitted` does, in the caller's transaction. */
export async function submitIn(
  mongo: Mongo,
  wanted: Submit,
  session: ClientSession,
  posted = commandsOf(wanted),
): Promise<SubmitResult> {
  // An update costs the server less than a findAndModify and returns all that is needed: whether it changed the attempt.
  const written = await attempts(mongo).updateOne(whereKey(wanted.attempt), submitUpdate(wanted).pipeline, { session });
  if (written.modifiedCount !== 1) return { kind: 'unchanged' };
  await applyWrites(mongo, [inserts(COMMANDS, posted)], session);
  return { kind: 'submitted', command: posted[0] };
}

interface Prepared {
  wanted: Submit;
  posted: Posted;
}

/** Submits many attempts in the caller's transaction, each as `markSubmitted` does. */
export function submitAll(mongo: Mongo, wanted: readonly Submit[], session: ClientSession): Promise<SubmitResult[]> {
  return submitTogether(
    mongo,
    wanted.map((one) => ({ wanted: one, posted: commandsOf(one) })),
    session,
  );
}

async function submitTogether(
  mongo: Mongo,
  group: readonly Prepared[],
  session: ClientSession,
): Promise<SubmitResult[]> {
  const stamps = new Map<Prepared, string>();
  let changed = 0;
  for (const alike of Map.groupBy(
    group,
    ({ wanted }) => `${wanted.source} ${wanted.overdueByMs} ${roundOf(wanted.attempt)}`,
  ).values()) {
    const [{ wanted }] = alike as [Prepared];
    const update = ofMany(submitUpdate(wanted));
    for (const one of alike) stamps.set(one, update.stampOf(one.wanted.attempt._id));
    const keys = whereKeys(alike.map((one) => one.wanted.attempt));
    changed += (await attempts(mongo).updateMany(keys, update.pipeline, { session })).modifiedCount;
  }
  // Students who send their submit again must not undo those of the others: the stamps show which submits stand, each once.
  const standing = new Set(changed === group.length ? stamps.values() : await stampsOf(mongo, group, session));
  const results = group.map((one): SubmitResult => {
    const stands = standing.delete(stamps.get(one) ?? '');
    return stands ? { kind: 'submitted', command: one.posted[0] } : { kind: 'unchanged' };
  });
  const posted = group.flatMap((one, index) => (results[index]?.kind === 'submitted' ? one.posted : []));
  await applyWrites(mongo, [inserts(COMMANDS, posted)], session);
  return results;
}

/** Submits as `markSubmitted` does. Submits of the same moment share one transaction. */
export type MarkSubmitted = (wanted: WantedSubmit & { session: ClientSession }) => Promise<SubmitResult>;

/** Opens the submits of a front door. `budgetMs` is the time limit of one transaction. */
export function openSubmits(mongo: Mongo, budgetMs: number): MarkSubmitted {
  const submit = gatherTransactions<Prepared & { session: ClientSession }, SubmitResult>(mongo, {
    budgetMs,
    alone: ({ wanted, session, posted }) => markSubmitted(mongo, { ...wanted, budgetMs, session }, posted),
    together: (group, session) => submitTogether(mongo, group, session),
  });
  // The commands name the request that causes them, so they are made in its scope.
  return (wanted) => submit({ wanted, posted: commandsOf(wanted), session: wanted.session });
}

/** Returns the stamps of these attempts as the transaction of the session sees them. */
async function stampsOf(mongo: Mongo, group: readonly { wanted: Submit }[], session: ClientSession) {
  const found = await attempts(mongo)
    .find(whereKeys(group.map(({ wanted }) => wanted.attempt)), { session, projection: { stamp: 1 }, hint: BY_ID })
    .toArray();
  return found.map(({ stamp }) => stamp);
}

type Posted = readonly [CommandOf<'grading'>, ...CommandOf<'upkeep:publish'>[]];

/** Returns the grading command of a submit, and the one that publishes it if a subscription wants that. */
function commandsOf(wanted: Submit): Posted {
  const { maxAttempts, now } = wanted;
  const grading = newCommand({ ...gradingOrder(wanted.attempt, wanted), maxAttempts, now });
  if (wanted.isWanted !== true) return [grading];
  return [grading, newCommand({ ...submittedOrder(wanted.attempt), maxAttempts: EVENT_ATTEMPTS, now })];
}

function submitUpdate(wanted: Submit) {
  const late = { $and: [{ $ne: ['$deadlineAt', null] }, { $gt: [NOW_MS, msOf('$deadlineAt')] }] };
  const submittedAt: Document | string =
    wanted.source === 'TIMEOUT' ? { $cond: [late, '$deadlineAt', '$$NOW'] } : '$$NOW';
  const endMs = wanted.source === 'TIMEOUT' ? { $cond: [late, msOf('$deadlineAt'), NOW_MS] } : NOW_MS;
  // A clock that stepped back must not store a negative duration.
  const seconds = { $floor: { $divide: [{ $max: [0, { $subtract: [endMs, msOf('$startedAt')] }] }, 1_000] } };
  const overdue =
    wanted.overdueByMs === null
      ? []
      : [{ $ne: ['$deadlineAt', null] }, { $gte: [NOW_MS, { $add: [msOf('$deadlineAt'), wanted.overdueByMs] }] }];
  const isOfRound = { $eq: [{ $ifNull: ['$round', 1] }, roundOf(wanted.attempt)] };
  return guardedUpdate([{ $eq: ['$status', 'IN_PROGRESS'] }, isOfRound, ...overdue], {
    status: 'SUBMITTED' satisfies Attempt['status'],
    submittedBy: literal(wanted.source),
    submittedAt,
    durationSeconds: { $toInt: seconds },
    boardAt: '$$NOW',
    // A sweep submits without the student. The client's TIMEOUT is a sign of the student.
    ...(wanted.source === 'STUDENT' || wanted.client !== undefined ? { lastSeenAt: '$$NOW' } : {}),
  });
}

/**
 * Yields attempts still in progress whose deadline passed by `before` (Unix milliseconds), longest overdue first, in
 * chunks. The index is walked once: an attempt that stays in progress is yielded once.
 */
export async function* overdueAttempts(mongo: Mongo, before: number, chunk: number): AsyncGenerator<Sitting[]> {
  const cursor = attempts(mongo).find(
    { status: 'IN_PROGRESS', deadlineAt: { $lte: new Date(before) } },
    { projection: { studentId: 1, round: 1 }, sort: { deadlineAt: 1 }, batchSize: chunk, maxTimeMS: QUERY_LIMIT_MS },
  );
  let overdue: Sitting[] = [];
  // If the caller stops early, the loop closes the cursor.
  for await (const attempt of cursor) {
    overdue.push(attempt);
    if (overdue.length < chunk) continue;
    yield overdue;
    overdue = [];
  }
  if (overdue.length > 0) yield overdue;
}
