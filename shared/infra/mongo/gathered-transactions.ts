import { type ClientSession, MongoError } from 'mongodb';
import { gather, type Part } from '#infra/process/gather.ts';
import { catchUp, inCausalOrder } from './causal-read.ts';
import type { Mongo } from './connect.ts';
import { isOutage } from './faults.ts';
import { inTransactionOf } from './transaction.ts';

/** Work of one caller in its session, and the same work of many in one transaction. */
interface Ways<Wanted, Result> {
  /** Time limit of one transaction, in milliseconds. */
  budgetMs: number;
  alone(wanted: Wanted): Promise<Result>;
  /** Does the work of all in the transaction of `session`. Returns null, or throws, if one of them cannot be done. */
  together(group: readonly Wanted[], session: ClientSession): Promise<readonly Result[] | null>;
}

/**
 * Returns a function whose callers share transactions: what is asked for while one is in progress goes into the next one together. If
 * a group cannot be written whole, nothing of it is, and each caller's work is done alone: it then fails for its own reason, and the others
 * do not. A caller whose earlier try has failed sets `apart` and shares no transaction.
 */
export function gatherTransactions<Wanted extends { session?: ClientSession; apart?: boolean }, Result>(
  mongo: Mongo,
  { budgetMs, alone, together }: Ways<Wanted, Result>,
): (wanted: Wanted) => Promise<Result> {
  const grouped = gather(async (group: readonly Wanted[]): Promise<Part<Result>[]> => {
    const [first, ...others] = group;
    if (first === undefined || others.length === 0) return group.map(alone);

    const write = (own: ClientSession) =>
      inTransactionOf(mongo, own, budgetMs, async (session) => {
        const done = await together(group, session).catch((error: unknown) => {
          if (isUnanswered(error)) throw error;
          return null;
        });
        // Thrown without a label of the server, so that the transaction is not repeated: all would wait for the one that was refused.
        if (done === null) throw new Apart();
        return done;
      });
    try {
      const used = first.session;
      const results = await (used === undefined ? inCausalOrder(mongo, write) : write(used));
      for (const { session } of others) if (used !== undefined && session !== undefined) catchUp(session, used);
      return [...results];
    } catch (error) {
      if (error instanceof Apart) return group.map(alone);
      throw error;
    }
  });
  return (wanted) => (wanted.apart === true ? alone(wanted) : grouped(wanted));
}

/** The members of a group are tried alone. */
class Apart extends Error {}

/** Returns true if the server did not answer. Each member alone would not be answered either. */
function isUnanswered(error: unknown): boolean {
  return isOutage(error) && !(error instanceof MongoError && typeof error.code === 'number');
}
