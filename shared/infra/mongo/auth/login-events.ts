import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { DAY, HOUR } from '#shared/kernel/time.ts';
import { type SecurityEvent, securityEvents } from './collections.ts';

/**
 * Writes that so many logins in a row have failed that further ones wait long. `count` is a keyed hash of the account or the known pair
 * whose count it is. Of several events of one count and day, MongoDB stores the first. Those without an account have ids of their own:
 * they are stored by account, and no two shards may hold the same id.
 */
export async function noteLockout(
  mongo: Mongo,
  { count, accountId, metadata }: { count: string } & Pick<SecurityEvent, 'accountId' | 'metadata'>,
  now: number,
): Promise<void> {
  const of = accountId === null ? `unknown:${count}` : count;
  const _id = `lockout:${of}:${Math.floor(now / DAY)}`;
  await noteOnce(mongo, { _id, accountId, sessionId: null, type: 'LOGIN_LOCKED', at: new Date(now), metadata });
}

/** Writes that strangers from an address are slowed. Of several events of one address and hour, MongoDB stores the first. */
export async function noteSlowedAddress(
  mongo: Mongo,
  { address, spacingMs }: { address: string; spacingMs: number },
  now: number,
): Promise<void> {
  const _id = `slowed:${address}:${Math.floor(now / HOUR)}`;
  const metadata = { address, spacingMs };
  await noteOnce(mongo, {
    _id,
    accountId: null,
    sessionId: null,
    type: 'ADDRESS_SLOWED',
    at: new Date(now),
    metadata,
  });
}

/** Returns the newest security events of all accounts, or those with this hash of an address. */
export async function newestOfAll(mongo: Mongo, { limit, address }: { limit: number; address?: string }) {
  const filter = address === undefined ? {} : { 'metadata.address': address };
  return securityEvents(mongo).find(filter).sort({ at: -1 }).limit(limit).toArray();
}

async function noteOnce(mongo: Mongo, event: SecurityEvent): Promise<void> {
  try {
    await securityEvents(mongo).insertOne(event, { maxTimeMS: QUERY_LIMIT_MS });
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
  }
}
