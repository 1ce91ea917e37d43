import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { nowPlus } from '#infra/mongo/server-time.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { type Generation, REPLAY_MS } from '#shared/classifier/generation.ts';
import { generations } from './collections.ts';
import { dropHold } from './generation-holds.ts';

/** Notes that the usage service has taken it. A fact, whoever brought it about: no fence is asked for. */
export async function markConsumed(mongo: Mongo, previewId: string, session?: ClientSession): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$state', 'PENDING'] }], { usageConsumed: true });
  const options = session === undefined ? {} : { session };
  await generations(mongo).updateOne({ _id: previewId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS, ...options });
}

/** PENDING → SETTLED, once both owners have it: from now on the answer may be given; nothing is held for it any more. */
export async function markSettled(
  mongo: Mongo,
  { _id, organizationId }: Pick<Generation, '_id' | 'organizationId'>,
  session: ClientSession,
): Promise<void> {
  const { pipeline } = guardedUpdate([{ $eq: ['$state', 'PENDING'] }], {
    state: 'SETTLED' satisfies Generation['state'],
    usageConsumed: true,
    settledAt: '$$NOW',
    replayUntil: nowPlus(REPLAY_MS),
    leaseUntil: '$$NOW',
    failure: null,
  });
  await generations(mongo).updateOne({ _id }, pipeline, { session });
  await dropHold(mongo, { _id, organizationId }, session);
}

/**
 * The same at a front door, which ends the worker's command with it. A worker that has claimed the command meanwhile finds the row
 * settled. The row as it is then.
 */
export async function settleAtDoor(mongo: Mongo, row: Generation): Promise<Generation> {
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await markSettled(mongo, row, session);
    if (row.commandId === null) return;
    const done = { status: 'DONE', settledAt: '$$NOW', result: { settledBy: 'front door' } };
    await mailboxOf(mongo, 'settlement').updateOne(
      { _id: row.commandId, status: 'PENDING', lockedUntil: null },
      [{ $set: done }],
      { session },
    );
  });
  const settled = await generations(mongo).findOne({ _id: row._id }, { maxTimeMS: QUERY_LIMIT_MS });
  if (settled === null || settled.state !== 'SETTLED') throw new Error(`generation ${row._id} was not settled`);
  return settled;
}
