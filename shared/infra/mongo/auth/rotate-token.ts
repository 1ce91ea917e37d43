import type { Mongo } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import { msOf, NOW_MS } from '#infra/mongo/server-time.ts';
import { Stale } from '#infra/mongo/stale.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { RefreshToken } from '#shared/auth/session.ts';
import { sessions, tokens } from './collections.ts';

export interface Rotation {
  /** `jti` of the token that is exchanged. */
  presented: string;
  sessionId: string;
  successor: RefreshToken;
  /** Until when the session lives from now on: that of the successor. */
  expiresAt: Date;
}

/**
 * Exchanges a refresh token for its successor: consumes the one, stores the other and moves its session on, or none of it.
 * `lost`: somebody else consumed it first, it has expired, or its session is over. Whoever ends a session writes the
 * same document, so no token comes into one that is being ended.
 */
export async function rotateToken(mongo: Mongo, rotation: Rotation, budgetMs: number): Promise<'rotated' | 'lost'> {
  try {
    await inTransaction(mongo, budgetMs, async (session) => {
      const consume = guardedUpdate(
        [
          { $eq: ['$consumedAt', null] },
          { $eq: ['$sessionId', literal(rotation.sessionId)] },
          { $gt: [msOf('$expiresAt'), NOW_MS] },
        ],
        { consumedAt: '$$NOW', successorId: literal(rotation.successor._id) },
      );
      const moveOn = guardedUpdate([{ $eq: ['$endedAt', null] }], {
        lastUsedAt: '$$NOW',
        expiresAt: literal(rotation.expiresAt),
      });
      const consumed = await tokens(mongo).updateOne({ _id: rotation.presented }, consume.pipeline, { session });
      if (consumed.modifiedCount !== 1) throw new Stale(`refresh token ${rotation.presented}`);
      const moved = await sessions(mongo).updateOne({ _id: rotation.sessionId }, moveOn.pipeline, { session });
      if (moved.modifiedCount !== 1) throw new Stale(`session ${rotation.sessionId}`);
      await tokens(mongo).insertOne(rotation.successor, { session });
    });
    return 'rotated';
  } catch (error) {
    if (error instanceof Stale) return 'lost';
    throw error;
  }
}
