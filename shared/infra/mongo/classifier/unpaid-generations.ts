import type { Mongo } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { endIdleCommand } from '#infra/mongo/mailbox/settle.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { type ClosedAs, REPLAY_MS } from '#shared/classifier/generation.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { generations } from './collections.ts';
import { findGeneration, findGenerationById } from './generations.ts';

/** A settlement command whose generation was not paid for within its day. */
interface OverdueSettlement {
  command: CommandRef<'settlement'>;
  previewId: string;
  /** Key of the generation; undefined if the command does not contain it. */
  generationKey?: string | undefined;
}

/** A worker that runs claims a due command within seconds, so a command that is due for longer has no worker. */
const UNCLAIMED_MS = MINUTE;
const CLOSE_BUDGET_MS = 5 * SECOND;

/**
 * Returns up to `limit` settlements that are a day old and that no worker claims, those that are due for the longest time first.
 * A settlement that an operator has replayed is never among them: it waits for a worker, however old it is. `now` is in Unix
 * milliseconds.
 */
export async function overdueSettlements(mongo: Mongo, now: number, limit: number): Promise<OverdueSettlement[]> {
  const rows = await mailboxOf(mongo, 'settlement')
    .find({
      queue: 'settlement',
      status: 'PENDING',
      nextRunAt: { $lte: new Date(now - UNCLAIMED_MS) },
      createdAt: { $lte: new Date(now - REPLAY_MS) },
      replays: 0,
    })
    .sort({ nextRunAt: 1 })
    .limit(limit)
    .hint('due')
    .toArray();
  return rows.map(({ _id, queue, key, body }) => ({
    command: { _id, queue, key },
    previewId: body.previewId,
    generationKey: body.key,
  }));
}

/** Thrown to abort the transaction of a settlement that a process runs. */
class StillRuns extends Error {}

const WAS_NOT_SETTLED = { fingerprint: 'Unsettled', message: 'the generation was not settled within 24 hours' };

/**
 * Closes the unpaid answer of an overdue settlement and makes its command DEAD, in one commit. From then on, only a replay by an
 * operator charges the answer. `in use`: by MongoDB's clock the day is not over or a run charges the answer; nothing is written.
 */
export async function closeOverdueSettlement(
  mongo: Mongo,
  { command, previewId, generationKey }: OverdueSettlement,
): Promise<'dead' | 'in use'> {
  const isOver = { $lte: [msOf('$replayUntil'), NOW_MS] };
  const update = guardedUpdate([{ $eq: ['$state', 'PENDING'] }, isOver], {
    closed: { $ifNull: ['$closed', literal('EXPIRED' satisfies ClosedAs)] },
  });
  try {
    return await inTransaction(mongo, CLOSE_BUDGET_MS, async (session) => {
      // Read the key in the transaction: an erasure that replaces it makes the transaction start again.
      const named =
        generationKey === undefined
          ? null
          : await findGeneration(mongo, { _id: previewId, key: generationKey }, session);
      const found = named ?? (await findGenerationById(mongo, previewId, session));
      const filter = { _id: previewId, key: found?.key ?? '' };
      const options = { returnDocument: 'after', session } as const;
      const row = found === null ? null : await generations(mongo).findOneAndUpdate(filter, update.pipeline, options);
      if (row !== null && !wasAccepted(update, row)) return 'in use';
      const ended = await endIdleCommand(mongo, command, { to: 'DEAD', error: WAS_NOT_SETTLED }, session);
      if (ended === 'running') throw new StillRuns();
      return 'dead';
    });
  } catch (error) {
    if (error instanceof StillRuns) return 'in use';
    throw error;
  }
}
