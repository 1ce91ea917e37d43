import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { Redis } from 'ioredis';
import { createClient, type RedisClient } from 'redis';
import { keepConnected, type Link, type Log, type Session, within } from './link.ts';
import { type RedisAddress, readRedisUrl } from './redis-url.ts';

/** A silent peer is noticed by the kernel about 10 s after this, also on a connection that only waits. */
const KEEP_ALIVE_AFTER_MS = 5_000;
/** ioredis ends a socket politely; a hung Redis never says goodbye, so the socket is destroyed after this. */
const POLITE_END_MS = 100;
const PROBE_PATIENCE_MS = 500;
/** What a ring asks of Redis: a script that writes, over more keys than one. */
const PROBE = `
redis.call('SET', KEYS[1], '1', 'PX', 1000)
return redis.call('EXISTS', KEYS[2])`;
const PROBE_KEYS = ['examhall:probe:1', 'examhall:probe:2'] as const;

/**
 * Opens one node_redis connection, which is what bee-queue takes. It never queues a command for later and never
 * reconnects (see Session). Its 'error' listener stays for ever: node_redis can emit two errors in one turn, and the
 * second would end the process.
 */
export function openNodeRedis(address: RedisAddress, lost: (reason: unknown) => void): Session<RedisClient> {
  const ready = Promise.withResolvers<void>();
  const client = createClient({
    ...(address.path === undefined ? { host: address.host, port: address.port } : { path: address.path }),
    ...(address.family === undefined ? {} : { family: address.family === 6 ? 'IPv6' : 'IPv4' }),
    ...(address.username === undefined ? {} : { user: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    ...(address.db === 0 ? {} : { db: address.db }),
    ...(address.tls ? { tls: tlsOf(address) } : {}),
    enable_offline_queue: false,
    // Its own check asks for INFO, which a user without the dangerous commands may not; ours is a PING.
    no_ready_check: true,
    retry_strategy: () => undefined,
    socket_initial_delay: KEEP_ALIVE_AFTER_MS,
  });
  survive(client, lost);
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
    // Not at once: the error that ends a session is often told from the middle of a chunk of replies, and the parser
    // goes on with the rest of it, or dials anew by itself after bytes that are no Redis protocol.
    end: () => void setImmediate(endNow, client),
  };
}

function endNow(client: RedisClient): void {
  client.end(true);
  // end() waits until the peer has taken what was written: for ever, if it hangs.
  client.stream.destroy();
}

/**
 * node_redis throws inside its socket's 'data' event when a reply comes that no command asked for, and that would end
 * the process. It may end the connection.
 */
function survive(client: RedisClient, lost: (reason: unknown) => void): void {
  for (const method of ['return_reply', 'return_error'] as const) {
    const take = client[method].bind(client);
    client[method] = (reply) => {
      try {
        take(reply);
      } catch (error) {
        lost(error);
      }
    };
  }
}

/** Opens one ioredis connection: our own traffic (Pub/Sub, rate limits, probes). Same rules as openNodeRedis. */
export function openIoredis(address: RedisAddress, lost: (reason: unknown) => void): Session<Redis> {
  const ready = Promise.withResolvers<void>();
  const client = new Redis({
    ...(address.path === undefined ? { host: address.host, port: address.port } : { path: address.path }),
    ...(address.family === undefined ? {} : { family: address.family }),
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    db: address.db,
    ...(address.tls ? { tls: tlsOf(address) } : {}),
    // RESP2: a subscriber answers PING in it, and servers older than 6 speak nothing else.
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

/** Node names the server in the handshake only when told to, and what stands before many a Redis routes by that name. */
function tlsOf({ host }: RedisAddress): ConnectionOptions {
  return isIP(host) === 0 ? { servername: host } : {};
}

/**
 * A shared ioredis client that is there or is not: `current()` is null while Redis is away. Bound every command on
 * it with `within` and `drop` the client when that runs out, or a hung Redis collects commands.
 */
export function keepIoredis({ redisUrl, log, purpose }: { redisUrl: string; log: Log; purpose: string }): Link<Redis> {
  const address = readRedisUrl(redisUrl);
  return keepConnected({ log, purpose, label: address.label, open: (lost) => openIoredis(address, lost) });
}

export interface RedisProbe {
  /**
   * Resolves when Redis did just now what a ring asks of it; rejects within half a second when it did not: away, full, read-only, in
   * cluster mode, without the rights.
   */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** The readiness check's own connection: it says what Redis does, not what another connection remembers of it. */
export function redisProbe({ redisUrl, log }: { redisUrl: string; log: Log }): RedisProbe {
  const link = keepIoredis({ redisUrl, log, purpose: 'probe' });
  return {
    async ping() {
      const client = link.current();
      if (client === null) throw new Error('Redis is away');
      try {
        await within(PROBE_PATIENCE_MS, client.eval(PROBE, PROBE_KEYS.length, ...PROBE_KEYS));
      } catch (error) {
        link.drop(client, error);
        throw error;
      }
    },
    close: () => link.close(),
  };
}
