import { setTimeout as delay } from 'node:timers/promises';
import { type ClientSession, MongoError, MongoErrorLabel, type TransactionOptions } from 'mongodb';
import { schemaState } from '#infra/mongo/schema/schema-state.ts';
import { backoff, SECOND } from '#shared/kernel/time.ts';
import type { Mongo } from './connect.ts';
import { isOutage } from './faults.ts';

/** A front door's transaction must end within this, retries included (ms); then the request is a 503. */
export const FRONT_DOOR_BUDGET_MS = 5 * SECOND;

/** Options of every transaction. */
export const TRANSACTION: TransactionOptions = {
  readConcern: { level: 'snapshot' },
  writeConcern: { w: 'majority', journal: true },
};
const CONFLICT_REST = { baseMs: 5, capMs: 200 };

/**
 * Runs `work` in one transaction, again when the server says that it was a passing conflict. `work` may run several
 * times and must do nothing but MongoDB commands of this session. A duplicate key must leave `work` as the error it
 * is: map it outside.
 */
export async function inTransaction<Result>(
  mongo: Mongo,
  budgetMs: number,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  return mongo.client.withSession((session) => inTransactionOf(mongo, session, budgetMs, work));
}

/**
 * The same in a session that the caller holds. Not the driver's own `withTransaction`: that one goes on for two
 * minutes, conflicts and lost servers alike, and its `timeoutMS` has no effect.
 */
export async function inTransactionOf<Result>(
  mongo: Mongo,
  session: ClientSession,
  budgetMs: number,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  const giveUpAt = performance.now() + budgetMs;
  for (let attempt = 1; ; attempt++) {
    try {
      session.startTransaction(TRANSACTION);
      const result = await work(session);
      await commit(session, giveUpAt);
      return result;
    } catch (error) {
      if (session.inTransaction()) await session.abortTransaction();
      if (!hasLabel(error, MongoErrorLabel.TransientTransactionError)) {
        await untilKnown(mongo, session, error, giveUpAt);
        throw error;
      }
      // Jitter over the whole wait: those who conflicted must not meet again.
      const restMs = backoff({ ...CONFLICT_REST, attempt, random: 0 }) * Math.random();
      if (performance.now() + restMs >= giveUpAt) throw error;
      await delay(restMs);
    }
  }
}

/** A commit whose reply was lost is asked for again: the server answers what became of it, and never commits twice. */
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
 * What refused a transaction (a key that is taken, a document that has changed) was seen as soon as one server had it. A commit waits for
 * a majority, also one that changed nothing; an abort waits for nobody. Our reads ask a majority, so whoever looks next for what refused
 * them may not find it yet: a read that must be as new as all that this session has seen waits until they would. Where it waits in vain
 * nobody can be told why it was refused, and the outage is what is thrown.
 */
async function untilKnown(mongo: Mongo, session: ClientSession, error: unknown, giveUpAt: number): Promise<void> {
  const leftMs = Math.ceil(giveUpAt - performance.now());
  if (session.operationTime === undefined || leftMs <= 0 || isOutage(error)) return;
  // Its own read concern: the driver writes the time into the object, and the client's is that of everybody's reads.
  const limits = { session, readConcern: { level: 'majority' }, maxTimeMS: leftMs } as const;
  await schemaState(mongo)
    .findOne({ _id: 'schema' }, limits)
    .catch((unknown: unknown) => {
      throw isOutage(unknown) ? unknown : error;
    });
}

function hasLabel(error: unknown, label: string): boolean {
  return error instanceof MongoError && error.hasErrorLabel(label);
}
