import type { Redis } from 'ioredis';
import { SECOND } from '#shared/kernel/time.ts';
import { openIoredis, runProbe } from './connection.ts';
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

/** Returns true if Redis stores rings: the check of a front door's `/readyz`, so that a tool and a front door agree. Never throws. */
export async function storesRings(redisUrl: string): Promise<boolean> {
  return (await askOnce(redisUrl, runProbe)) !== null;
}

/** The properties of a Redis on which rings depend. */
export interface RedisFacts {
  /** Null if this user may not see it. */
  version: string | null;
  /** The treatment of keys when the memory is full; null if this user may not see it. Unless it is `noeviction`, rings are lost. */
  evictionPolicy: string | null;
  /** Why Redis stores no ring, in its own words; null if it does. */
  ringFault: string | null;
}

/** Returns the facts, or null if Redis does not answer. */
export async function readRedisFacts(redisUrl: string): Promise<RedisFacts | null> {
  return askOnce(redisUrl, async (client) => {
    const ringFault = await runProbe(client).then(() => null, refusalOf);
    // A user without dangerous commands, as the guide recommends, may not run INFO.
    const info = await client.info().catch((error: unknown) => {
      refusalOf(error);
      return null;
    });
    const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info ?? '')?.[1] ?? null;
    return { version: field('redis_version'), evictionPolicy: field('maxmemory_policy'), ringFault };
  });
}

/** Returns the reply with which Redis refused a command. @throws the error itself if it is no reply */
function refusalOf(error: unknown): string {
  if (error instanceof Error && error.name === 'ReplyError') return error.message;
  throw error;
}
