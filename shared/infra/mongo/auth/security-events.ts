import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type SecurityEvent, securityEvents } from './collections.ts';

/** Writes a security event in the transaction of what it tells of: neither is there without the other. */
export async function noteSecurityEvent(
  mongo: Mongo,
  event: Omit<SecurityEvent, '_id' | 'at'>,
  now: number,
  session: ClientSession,
): Promise<void> {
  await securityEvents(mongo).insertOne({ _id: newId(now), ...event, at: new Date(now) }, { session });
}

/** The account's newest security events, newest first. */
export async function newestSecurityEvents(mongo: Mongo, accountId: string, limit: number): Promise<SecurityEvent[]> {
  return securityEvents(mongo)
    .find({ accountId }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ at: -1 })
    .limit(limit)
    .toArray();
}
