import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';

/** A grade by hand, once per attempt and source event: as JSON, so that no choice of ids can make two pairs meet. */
export function handoffKey(attemptId: string, sourceEventId: string): string {
  return `${keysOf(attemptId)}${JSON.stringify(sourceEventId)}]`;
}

function keysOf(attemptId: string): string {
  return `essayhandoff:[${JSON.stringify(attemptId)},`;
}

/**
 * Makes the handoffs due that wait for the grade of this attempt, and gives their ids. They are found by the beginning of
 * their unique keys. One that has spent an attempt does not wait for the grade but rests after a failure: it is left alone.
 */
export async function wakeHandoffs(mongo: Mongo, attemptId: string): Promise<string[]> {
  const mailbox = mailboxOf(mongo, 'essayhandoff');
  const keys = keysOf(attemptId);
  const waiting = { status: 'PENDING', attempts: 0, lockedUntil: null } as const;
  const found = await mailbox
    .find(
      // What follows is JSON text: it begins with a quotation mark, and the next character is a hash.
      { key: { $gte: `${keys}"`, $lt: `${keys}#` }, live: true, ...waiting },
      { hint: 'live_key', projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  const ids = found.map(({ _id }) => _id);
  if (ids.length === 0) return [];
  await mailbox.updateMany({ _id: { $in: ids }, ...waiting }, [{ $set: { nextRunAt: '$$NOW' } }]);
  return ids;
}
