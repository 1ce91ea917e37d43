import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { Redis } from 'ioredis';
import { createClient, type RedisClient } from 'redis';
import { SECOND } from '#shared/kernel/time.ts';
import { keepConnected, type Link, type LinkLog, type LinkSession, withReplyTimeout } from './link.ts';
import { type RedisAddress, readRedisUrl } from './redis-url.ts';

/** Silence before the first keep-alive probe. The operating system reports a dead peer about 10 s later, also on an idle connection. */
const KEEP_ALIVE_AFTER_MS = 5_000;
/** Time for ioredis to close a socket in order. The socket of a hung Redis is destroyed afterwards. */
const POLITE_END_MS = 100;
/** Time limit of the readiness probe. */
const PROBE_TIMEOUT_MS = 500;
/** Requires from Redis the same as a ring does: a script that writes and uses several keys. */
const PROBE = `
redis.call('SET', KEYS[1], '1', 'PX', 1000)
return redis.call('EXISTS', KEYS[2])`;
const PROBE_KEYS = ['examhall:probe:1', 'examhall:probe:2'] as const;

/** Resolves if Redis has just run the probe script. Rejects if it is full, read-only or in cluster mode, or if the user lacks permissions. */
function runProbe(client: Redis): Promise<unknown> {
  return client.eval(PROBE, PROBE_KEYS.length, ...PROBE_KEYS);
}

/**
 * Opens one node_redis connection, the type that bee-queue requires. It never queues a command and never reconnects (see Session).
 *
 * Its 'error' listener is never removed: node_redis can emit two errors in one turn, and without a listener the second would end
 * the process.
 */
export function openNodeRedis(address: RedisAddress, lost: (reason: unknown) => void): LinkSession<RedisClient> {
  const ready = Promise.withResolvers<void>();
  const client = createClient({
    ...(address.path === undefined ? { host: address.host, port: address.port } : { path: address.path }),
    ...(address.family === undefined ? {} : { family: address.family === 6 ? 'IPv6' : 'IPv4' }),
    ...(address.username === undefined ? {} : { user: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    ...(address.db === 0 ? {} : { db: address.db }),
    ...(address.tls ? { tls: tlsOf(address) } : {}),
    enable_offline_queue: false,
    // The library's ready check sends INFO, which a user without dangerous commands may not run. Ours sends PING.
    no_ready_check: true,
    retry_strategy: () => undefined,
    socket_initial_delay: KEEP_ALIVE_AFTER_MS,
  });
  handleErrors(client, lost);
  client.setMaxListeners(0);
  client.on('error', lost);
  client.on('warning', () => {});
  client.on('end', () => lost(new Error('The connection ended')));
  const check = () =>
    new Promise<unknown>((resolve, reject) => {
      client.ping((error, reply) => (error ? reject(error) : resolve(reply)));
    });
  client.once('ready', () => void check().then(() => ready.resolve(), lost));
  return {
    client,
    ready: ready.promise,
    check,
    // End in a later turn. The error that ends a session is often raised while the parser is inside a chunk of replies. The
    // parser then continues with the rest, or redials by itself after bytes that are not Redis protocol.
    end: () => void setImmediate(endNow, client),
  };
}

function endNow(client: RedisClient): void {
  client.end(true);
  // end() waits until the peer has read everything that was written. A hung peer never does, so destroy the socket.
  client.stream.destroy();
}

/**
 * Turns an exception of the reply parser into a lost connection. node_redis throws inside its socket's 'data' event when a reply
 * belongs to no command, which would end the process.
 */
function handleErrors(client: RedisClient, lost: (reason: unknown) => void): void {
  for (const method of ['return_reply', 'return_error'] as const) {
    const handle = client[method].bind(client);
    client[method] = (reply) => {
      try {
        handle(reply);
      } catch (error) {
        lost(error);
      }
    };
  }
}

/** Opens one ioredis connection for our own traffic: Pub/Sub, rate limits, probes. The rules are those of openNodeRedis. */
export function openIoredis(address: RedisAddress, lost: (reason: unknown) => void): LinkSession<Redis> {
  const ready = Promise.withResolvers<void>();
  const client = new Redis({
    ...(address.path === undefined ? { host: address.host, port: address.port } : { path: address.path }),
    ...(address.family === undefined ? {} : { family: address.family }),
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    db: address.db,
    ...(address.tls ? { tls: tlsOf(address) } : {}),
    // RESP2: subscribers can still PING, and servers before version 6 support only this protocol.
    protocol: 2,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    disableClientInfo: true,
    retryStrategy: () => null,
    keepAlive: KEEP_ALIVE_AFTER_MS,
    disconnectTimeout: POLITE_END_MS,
  });
  client.on('error', lost);
  client.on('end', () => lost(new Error('The connection ended')));
  client.once('ready', () => void client.ping().then(() => ready.resolve(), lost));
  return { client, ready: ready.promise, check: () => client.ping(), end: () => client.disconnect() };
}

/**
 * Returns TLS options that send the server's name in the handshake. Node omits the name by default, but proxies in front of
 * hosted Redis route by it. An IP address cannot be sent as a name.
 */
function tlsOf({ host }: RedisAddress): ConnectionOptions {
  return isIP(host) === 0 ? { servername: host } : {};
}

/**
 * Keeps one shared ioredis client; `current()` is null while Redis is unreachable. Callers must limit every command with
 * `withReplyTimeout` and `drop` the client on a timeout. Otherwise commands accumulate while Redis hangs.
 */
export function keepIoredis({
  redisUrl,
  log,
  purpose,
}: {
  redisUrl: string;
  log: LinkLog;
  purpose: string;
}): Link<Redis> {
  const address = readRedisUrl(redisUrl);
  return keepConnected({ log, purpose, label: address.label, open: (lost) => openIoredis(address, lost) });
}

interface RedisProbe {
  /**
   * Resolves if Redis has just run the probe script, which needs the same as a ring. Rejects within half a second otherwise: if
   * Redis is unreachable, full, read-only or in cluster mode, or if the user lacks permissions.
   */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** Opens the readiness check's own connection. It tests Redis itself, independent of the state of other connections. */
export function redisProbe({ redisUrl, log }: { redisUrl: string; log: LinkLog }): RedisProbe {
  const link = keepIoredis({ redisUrl, log, purpose: 'probe' });
  return {
    async ping() {
      const client = link.current();
      if (client === null) throw new Error('Redis is unreachable');
      try {
        await withReplyTimeout(PROBE_TIMEOUT_MS, runProbe(client));
      } catch (error) {
        link.drop(client, error);
        throw error;
      }
    },
    close: () => link.close(),
  };
}

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
