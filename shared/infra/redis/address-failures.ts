import { isIPv4 } from 'node:net';
import type { Redis } from 'ioredis';
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import { groupsOf, readAddress } from '#infra/net/ip-address.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { keepIoredis } from './connection.ts';
import { type LinkLog, withReplyTimeout } from './link.ts';

/** Counts failed logins by client address. No method throws or takes longer than `boundMs`. */
export interface AddressFailures {
  /** Returns true if this address has reached its limit of failures. */
  isOver(address: string): Promise<boolean>;
  /** Counts one failed login of this address. */
  record(address: string): Promise<void>;
  close(): Promise<void>;
}

/** Pause before the next dial after a call timed out. A slow Redis then delays one login by `boundMs`, not every login. */
const QUIET_MS = SECOND;
const PREFIX = 'examhall:auth:address-failures';

/**
 * Opens the counters. Redis counts for all front doors, and this process also counts the failures that it sees itself. While
 * Redis is unreachable, its own count decides, and already contains the earlier failures.
 *
 * The size of the own count needs no limit: each failure costs a password hash, so there are about ten a second at most.
 */
export function openAddressFailures(deps: {
  redisUrl: string;
  log: LinkLog;
  /** Failures in one window after which an address is over its limit. Default 100. */
  limit?: number;
  /** Length of a window, which starts at the first failure. Default 15 minutes. */
  windowMs?: number;
  /** Time limit of a call to Redis. Default 50. */
  boundMs?: number;
}): AddressFailures {
  const { limit = 100, windowMs = 15 * MINUTE, boundMs = 50 } = deps;
  const link = keepIoredis({ ...deps, purpose: 'address failures' });
  const counting = { points: limit, duration: windowMs / SECOND, keyPrefix: PREFIX };
  const here = new RateLimiterMemory(counting);
  let shared: { client: Redis; limiter: RateLimiterAbstract } | null = null;

  /** Returns the limiter of the current connection. A limiter defines its script on one client, so each client needs its own. */
  function limiterOn(client: Redis): RateLimiterAbstract {
    if (shared?.client !== client) {
      shared = { client, limiter: new RateLimiterRedis({ ...counting, storeClient: client }) };
    }
    return shared.limiter;
  }

  /** Returns the reply of Redis, or null if it is unreachable, fails or exceeds `boundMs`. */
  async function ask<T>(question: (limiter: RateLimiterAbstract) => Promise<T>): Promise<T | null> {
    const client = link.current();
    if (client === null) return null;
    try {
      return await withReplyTimeout(boundMs, question(limiterOn(client)));
    } catch (error) {
      link.drop(client, error, QUIET_MS);
      return null;
    }
  }

  return {
    async isOver(address) {
      const key = countedAs(address);
      const seen = await Promise.all([here.get(key), ask((limiter) => limiter.get(key))]);
      return seen.some((count) => count !== null && count.consumedPoints >= limit);
    },
    async record(address) {
      const key = countedAs(address);
      await Promise.all([here.penalty(key), ask((limiter) => limiter.penalty(key))]);
    },
    close: () => link.close(),
  };
}

/** Groups of an IPv6 address that are counted: a /64. A household usually owns a whole /64, so an attacker gets more addresses in it for free. */
const COUNTED_GROUPS = 4;
/** Maximum length of a key that is not an IP address, in characters. */
const MAX_KEY_LENGTH = 64;

/** Returns the key under which failures are counted: an IPv4 address, or an IPv6 network as `2001:db8:0:1::/64`. */
export function countedAs(text: string): string {
  const address = readAddress(text);
  if (address === null) return text.slice(0, MAX_KEY_LENGTH);
  if (isIPv4(address)) return address;
  const network = groupsOf(address).slice(0, COUNTED_GROUPS);
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}
