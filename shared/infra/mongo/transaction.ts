import type { ClientSession } from 'mongodb';
import { SECOND } from '../../kernel/clock.ts';
import type { Mongo } from './connect.ts';

/** A front door's transaction must end within this, retries included (ms); then the request is a 503. */
export const FRONT_DOOR_BUDGET_MS = 5 * SECOND;

/**
 * Runs `work` in one transaction, again when the server says that it was a passing conflict. `work` may run several
 * times and must do nothing but MongoDB commands of this session. A duplicate key must leave `work` as the error it
 * is (the driver would retry a swallowed one for minutes): map it outside.
 */
export async function inTransaction<Result>(
  mongo: Mongo,
  budgetMs: number,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  return mongo.client.withSession((session) => inTransactionOf(session, budgetMs, work));
}

/** The same in a session that the caller holds. */
export async function inTransactionOf<Result>(
  session: ClientSession,
  budgetMs: number,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  return session.withTransaction(() => work(session), {
    readConcern: { level: 'snapshot' },
    writeConcern: { w: 'majority', journal: true },
    timeoutMS: budgetMs,
  });
}
