import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { gatherTransactions } from '#infra/mongo/gathered-transactions.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import { inTransactionOf } from '#infra/mongo/transaction.ts';
import { applyWrites, type Writes } from '#infra/mongo/writes.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { type CommandOf, MAILBOX_OF } from './commands.ts';
import { type NextState, settleCommand, settlement } from './settle.ts';

/** The end of one run, with what it has decided. */
export interface WantedCommit<Q extends Queue = Queue> {
  command: CommandOf<Q>;
  next: NextState<Q>;
  /** Stored with the end, all or nothing. */
  writes: readonly Writes[];
  /** The session of the run, which nothing else uses meanwhile. */
  session: ClientSession;
  /** True: it shares no command with other ends, because an earlier commit of the run has failed. */
  apart: boolean;
}

/** Stores the end of a run. Those of the same moment share their commands. @throws LeaseLost, Stale */
export type CommitRun = <Q extends Queue>(wanted: WantedCommit<Q>) => Promise<void>;

/** Opens the commits of a process. `budgetMs` is the time limit of one transaction. */
export function openCommits(mongo: Mongo, budgetMs: number): CommitRun {
  const settle = gather((wanted: readonly WantedCommit[]) => settleBare(mongo, wanted));
  const commit = gatherTransactions<WantedCommit, void>(mongo, {
    budgetMs,
    alone: (wanted) => commitAlone(mongo, wanted, budgetMs),
    async together(wanted, session) {
      if (!(await settleAll(mongo, wanted, session))) return null;
      const writes = wanted.flatMap((one) => one.writes);
      await applyWrites(mongo, writes, session);
      return wanted.map(() => undefined);
    },
  });
  return (given) => {
    const wanted = given as unknown as WantedCommit;
    if (wanted.writes.length > 0) return commit(wanted);
    return wanted.apart ? settleCommand(mongo, wanted.command, wanted.next) : settle(wanted);
  };
}

/**
 * Settles commands without effects. If one of them has been claimed by another worker, the others are settled all the same, and each of them
 * finds out alone which it is.
 */
async function settleBare(mongo: Mongo, wanted: readonly WantedCommit[]): Promise<Part<void>[]> {
  const alone = () => wanted.map(({ command, next }) => settleCommand(mongo, command, next));
  if (wanted.length === 1) return alone();
  try {
    return (await settleAll(mongo, wanted)) ? wanted.map(() => undefined) : alone();
  } catch (error) {
    if (isOutage(error)) throw error;
    return alone();
  }
}

/** Returns true if each of the commands was held by its worker and is settled now. */
async function settleAll(mongo: Mongo, wanted: readonly WantedCommit[], session?: ClientSession): Promise<boolean> {
  for (const [name, ofMailbox] of Map.groupBy(wanted, ({ command }) => MAILBOX_OF[command.queue])) {
    const alike = Map.groupBy(ofMailbox, ({ command: { _id, queue, fence }, next }) =>
      next.to === 'DONE' ? `${queue} ${fence}` : _id,
    );
    const models = [...alike.values()].map((ends) => {
      const [{ command, next }] = ends as [WantedCommit];
      const single = settlement(command, next);
      return ends.length === 1 ? { updateOne: single } : { updateMany: ofEachDone(single, ends) };
    });
    const options = { ordered: false, ...(session === undefined ? {} : { session }) };
    const { matchedCount } = await mongo.db.collection(name).bulkWrite(models as never, options);
    if (matchedCount !== ofMailbox.length) return false;
  }
  return true;
}

/**
 * Returns the write that ends several runs which are done, of one queue and with one fence, made from that of the first. A statement for
 * each would cost the server some times as much. It finds fewer commands if the worker no longer holds all of them.
 */
function ofEachDone({ filter, update }: ReturnType<typeof settlement>, done: readonly WantedCommit[]) {
  const ids = done.map(({ command }) => command._id);
  const results = done.map(({ next }) => (next.to === 'DONE' ? next.result : null));
  const result = { $arrayElemAt: [literal(results), { $indexOfArray: [literal(ids), '$_id'] }] };
  return {
    filter: { ...filter, _id: { $in: ids }, key: { $in: done.map(({ command }) => command.key) } },
    update: [...update, { $set: { result } }],
  };
}

/**
 * Settles the command and makes its changes in one transaction. The command is written first, so that a renewal of its lease
 * waits for this transaction. In the other order, each renewal would conflict with the transaction and make it start again; a
 * transaction longer than a third of the lease would never commit.
 */
function commitAlone(mongo: Mongo, { command, next, writes, session }: WantedCommit, budgetMs: number): Promise<void> {
  return inTransactionOf(mongo, session, budgetMs, async () => {
    await settleCommand(mongo, command, next, session);
    await applyWrites(mongo, writes, session);
  });
}
