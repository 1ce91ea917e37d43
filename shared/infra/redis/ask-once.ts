import type { Redis } from 'ioredis';
import { SECOND } from '#shared/kernel/time.ts';
import { openIoredis } from './connection.ts';
import { withReplyTimeout } from './link.ts';
import { readRedisUrl } from './redis-url.ts';

/** Time limit for connecting, TLS, AUTH and the reply together. */
const TIMEOUT_MS = 2 * SECOND;

/** Dials Redis, sends one request and closes. Returns null if it did not answer in time, or refused. Never throws. */
export async function askOnce<Reply>(
  redisUrl: string,
  ask: (client: Redis) => Promise<Reply>,
): Promise<Awaited<Reply> | null> {
  const lost = Promise.withResolvers<never>();
  lost.promise.catch(() => undefined);
  const session = openIoredis(readRedisUrl(redisUrl), lost.reject);
  const reply = session.ready.then(() => ask(session.client));
  try {
    return await withReplyTimeout(TIMEOUT_MS, Promise.race([reply, lost.promise]));
  } catch {
    return null;
  } finally {
    session.end();
  }
}

/** The properties of a Redis on which rings depend. */
export interface RedisFacts {
  version: string;
  /** The treatment of keys when the memory is full; null if this user may not see it. Unless it is `noeviction`, rings are lost. */
  evictionPolicy: string | null;
}

/** Returns the facts, or null if Redis does not answer. */
export async function readRedisFacts(redisUrl: string): Promise<RedisFacts | null> {
  const info = await askOnce(redisUrl, (client) => client.info());
  if (info === null) return null;
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  return { version: field('redis_version') ?? 'unknown', evictionPolicy: field('maxmemory_policy') ?? null };
}
