import type { Document } from 'mongodb';
import { type GuardedUpdate, guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import { msOf, NOW_MS } from '#infra/mongo/server-time.ts';
import type { SessionEnd } from '#shared/auth/session.ts';

/** Ends a session that lives: one that is over keeps its time and its reason, and one that has expired is over. */
export function ending(reason: SessionEnd, ...conditions: Document[]): GuardedUpdate {
  return guardedUpdate([{ $eq: ['$endedAt', null] }, { $gt: [msOf('$expiresAt'), NOW_MS] }, ...conditions], {
    endedAt: '$$NOW',
    endReason: literal(reason),
  });
}
