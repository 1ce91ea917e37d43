import type { Mongo } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import { newCommand, postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { nowPlus } from '#infra/mongo/server-time.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import {
  type Charge,
  type Generation,
  REPLAY_MS,
  SETTLEMENT_ATTEMPTS,
  SETTLEMENT_BACKOFF,
  type SettlementBody,
  settlementKey,
} from '#shared/classifier/generation.ts';
import { generations } from './collections.ts';
import { keepHold } from './generation-holds.ts';
import type { HeldGeneration } from './take-generation.ts';

/**
 * MAKING → PENDING: what the model gave and what it costs, the hold of that much for as long as it is owed, and the command to settle
 * it; all or none. False: somebody else holds the row by now, and nothing was stored.
 */
export async function storeReplay(
  mongo: Mongo,
  { row, fence }: HeldGeneration,
  made: { result: string; charge: Charge; now: number },
): Promise<boolean> {
  const { result, charge, now } = made;
  const body: SettlementBody = { previewId: row._id };
  const command = newCommand({
    queue: 'settlement',
    key: settlementKey(row._id),
    subject: row._id,
    body,
    maxAttempts: SETTLEMENT_ATTEMPTS,
    now,
    runAt: now + SETTLEMENT_BACKOFF.baseMs,
  });
  return inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    const { pipeline } = guardedUpdate([{ $eq: ['$fence', fence] }, { $eq: ['$state', 'MAKING'] }], {
      state: 'PENDING' satisfies Generation['state'],
      result: literal(result),
      charge: literal(charge),
      commandId: literal(command._id),
      replayUntil: nowPlus(REPLAY_MS),
      // What is owed never goes by itself.
      idleSince: null,
    });
    const written = await generations(mongo).updateOne({ _id: row._id }, pipeline, { session });
    if (written.modifiedCount !== 1) return false;
    await keepHold(mongo, row, charge, session);
    await postCommandIn(mongo, session, command);
    return true;
  });
}
