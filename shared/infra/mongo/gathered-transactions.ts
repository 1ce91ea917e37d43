import { AsyncLocalStorage } from 'node:async_hooks';
import { type ClientSession, MongoErrorLabel } from 'mongodb';
import { gather, type Part } from '#infra/process/gather.ts';
import { inSpan } from '#infra/trace/spans.ts';
import { catchUp, inCausalOrder } from './causal-read.ts';
import type { Mongo } from './connect.ts';
import { isUnanswered } from './faults.ts';
import { hasLabel, inOneTransaction, TRANSACTION_SPAN } from './transaction.ts';

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
  type Caller = { wanted: Wanted; inItsScope: ReturnType<typeof AsyncLocalStorage.snapshot> };

  const grouped = gather(async (callers: readonly Caller[]): Promise<Part<Result>[]> => {
    const eachAlone = () => callers.map(({ wanted, inItsScope }) => inItsScope(() => alone(wanted)));
    if (callers.length === 1) return eachAlone();

    const written = write(callers.map(({ wanted }) => wanted));
    // The trace of each caller shows that it waited for this transaction.
    for (const { inItsScope } of callers) {
      void inItsScope(() => inSpan(TRANSACTION_SPAN, () => written)).catch(() => undefined);
    }
    return [...((await written) ?? eachAlone())];
  });

  /** Writes a group. Returns null if it cannot be written whole. */
  async function write(group: readonly Wanted[]): Promise<readonly Result[] | null> {
    const [used, ...others] = group.flatMap(({ session }) => session ?? []);
    const inSession = (session: ClientSession) =>
      inOneTransaction({ mongo, session, budgetMs }, async () => {
        const done = await together(group, session);
        if (done === null) throw new Apart();
        return done;
      });
    try {
      const results = await (used === undefined ? inCausalOrder(mongo, inSession) : inSession(used));
      for (const other of others) if (used !== undefined) catchUp(other, used);
      return results;
    } catch (error) {
      // A commit whose outcome is unknown may stand. The work of a member, done again, would stand twice or be refused.
      if (isUnanswered(error) || hasLabel(error, MongoErrorLabel.UnknownTransactionCommitResult)) throw error;
      return null;
    }
  }

  return (wanted) =>
    wanted.apart === true ? alone(wanted) : grouped({ wanted, inItsScope: AsyncLocalStorage.snapshot() });
}

/** The members of a group are tried alone. */
class Apart extends Error {}
