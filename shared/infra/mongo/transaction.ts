import { setTimeout as delay } from 'node:timers/promises';
import { type ClientSession, MongoError, MongoErrorLabel, type TransactionOptions } from 'mongodb';
import { inSpan, type SpanNotes } from '#infra/trace/spans.ts';
import { backoff, SECOND } from '#shared/kernel/time.ts';
import type { Mongo } from './connect.ts';
import { isOutage } from './faults.ts';
import { schemaState } from './schema-state.ts';

/** Time limit of a front door's transaction, retries included, in milliseconds. The request fails with 503 afterwards. */
export const FRONT_DOOR_BUDGET_MS = 5 * SECOND;

/** Options of every transaction. */
export const TRANSACTION: TransactionOptions = {
  readConcern: { level: 'snapshot' },
  writeConcern: { w: 'majority', journal: true },
};
/** Backoff between two runs of a transaction that met a conflict. */
const CONFLICT_BACKOFF = { baseMs: 5, capMs: 200 };

/**
 * Runs `work` in one transaction and returns its result. If the server reports a transient error, the transaction is repeated
 * within `budgetMs`.
 *
 * `work` may therefore run several times, and may use only MongoDB commands of this session. It must not continue after a duplicate
 * key error, which aborts the transaction: map that error outside, or throw it as `repeatable`.
 */
export async function inTransaction<Result>(mongo: Mongo, budgetMs: number, work: Work<Result>): Promise<Result> {
  return mongo.client.withSession((session) => inTransactionOf(mongo, session, budgetMs, work));
}

/**
 * Does the same as `inTransaction` in a session of the caller. The driver's own `withTransaction` is not used: it repeats for two
 * minutes after conflicts and lost servers alike, and its `timeoutMS` has no effect.
 */
export function inTransactionOf<Result>(
  mongo: Mongo,
  session: ClientSession,
  budgetMs: number,
  work: Work<Result>,
): Promise<Result> {
  return inSpan(TRANSACTION_SPAN, (span) => untilCommitted({ mongo, session, budgetMs, span }, work));
}

/**
 * Runs `work` in one transaction of the session, once: a transient error is thrown like any other. Callers of a group take it, and each has
 * the work of its own repeated, so that one whose document is contested holds up no other.
 */
export function inOneTransaction<Result>(of: Omit<Run, 'span'>, work: Work<Result>): Promise<Result> {
  return untilCommitted({ ...of, span: null, once: true }, work);
}

export const TRANSACTION_SPAN = {
  kind: 'CLIENT',
  name: 'transaction',
  attributes: { 'db.system.name': 'mongodb', 'db.operation.name': 'transaction' },
} as const;

type Work<Result> = (session: ClientSession) => Promise<Result>;

interface Run {
  mongo: Mongo;
  session: ClientSession;
  budgetMs: number;
  span: SpanNotes | null;
  /** True: it is not repeated. Default: it is. */
  once?: boolean;
}

async function untilCommitted<Result>(
  { mongo, session, budgetMs, span, once = false }: Run,
  work: Work<Result>,
): Promise<Result> {
  const giveUpAt = performance.now() + budgetMs;
  for (let attempt = 1; ; attempt++) {
    if (attempt > 1) span?.set({ 'examhall.transaction.attempts': attempt });
    try {
      session.startTransaction(TRANSACTION);
      const result = await work(session);
      await commit(session, giveUpAt);
      return result;
    } catch (error) {
      if (session.inTransaction()) await session.abortTransaction();
      if (!hasLabel(error, MongoErrorLabel.TransientTransactionError)) {
        // The repetition of each member waits for itself.
        if (!once) await untilKnown(mongo, session, error, giveUpAt);
        throw error;
      }
      // Spread the wait over its whole length, so that conflicting transactions do not collide again.
      const waitMs = backoff({ ...CONFLICT_BACKOFF, attempt, random: 0 }) * Math.random();
      if (once || performance.now() + waitMs >= giveUpAt) throw error;
      await delay(waitMs);
    }
  }
}

/** Commits, and repeats a commit whose reply was lost. The server then returns the result of the first one; it never commits twice. */
async function commit(session: ClientSession, giveUpAt: number): Promise<void> {
  for (;;) {
    try {
      return await session.commitTransaction();
    } catch (error) {
      const isUnknown = hasLabel(error, MongoErrorLabel.UnknownTransactionCommitResult);
      if (!isUnknown || performance.now() >= giveUpAt) throw error;
    }
  }
}

/**
 * Waits until a majority has caught up with everything that this session has seen.
 *
 * A transaction can fail on a write (a taken key, a changed document) that is not majority-committed yet. A commit waits for a
 * majority, even if it changed nothing, but an abort does not. Our reads use majority read concern, so a follow-up read might not
 * see the write that refused the transaction.
 *
 * On a sharded cluster this read waits for the first shard alone. A follow-up read of another shard waits by itself if it runs in the session
 * (`readIn`); otherwise its caller has to expect that it does not see that write yet.
 *
 * If no majority answers in time, the outage is thrown instead, because the caller could not find the cause.
 */
async function untilKnown(mongo: Mongo, session: ClientSession, error: unknown, giveUpAt: number): Promise<void> {
  const leftMs = Math.ceil(giveUpAt - performance.now());
  if (session.operationTime === undefined || leftMs <= 0 || isOutage(error)) return;
  // Pass a new read concern: the driver writes the time into this object, and the client's object serves all other reads.
  const limits = { session, readConcern: { level: 'majority' }, maxTimeMS: leftMs } as const;
  await schemaState(mongo)
    .findOne({ _id: 'schema' }, limits)
    .catch((unknown: unknown) => {
      throw isOutage(unknown) ? unknown : error;
    });
}

/** Returns the error, marked so that the transaction in which it is thrown is repeated. Only for a refusal that the repeat can avoid. */
export function repeatable(error: unknown): unknown {
  if (error instanceof MongoError) error.addErrorLabel(MongoErrorLabel.TransientTransactionError);
  return error;
}

export function hasLabel(error: unknown, label: string): boolean {
  return error instanceof MongoError && error.hasErrorLabel(label);
}
