import { isIPv4 } from 'node:net';
import type { Redis } from 'ioredis';
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import { groupsOf, readAddress } from '#infra/net/ip-address.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { keepIoredis } from './connection.ts';
import { type Log, within } from './link.ts';

/** Counts failed logins by the address that they came from. No method throws or takes longer than the bound. */
export interface AddressFailures {
  /** Whether this address has used up its failures; false when in doubt. */
  isOver(address: string): Promise<boolean>;
  record(address: string): Promise<void>;
  close(): Promise<void>;
}

/** After Redis ran out of time, it is left alone for this long: it may cost one login the bound, not all. */
const QUIET_MS = SECOND;
const PREFIX = 'examhall:auth:address-failures';

/**
 * Redis counts for all front doors. This process counts what it sees as well: while Redis is away its own count decides, and it does
 * not begin at nothing. That count needs no bound of its own, as a failure takes a password hash: some ten a second.
 */
export function openAddressFailures(deps: {
  redisUrl: string;
  log: Log;
  /** Failures after which an address is over, within a window that its first failure opens. */
  limit?: number;
  windowMs?: number;
  boundMs?: number;
}): AddressFailures {
  const { limit = 100, windowMs = 15 * MINUTE, boundMs = 50 } = deps;
  const link = keepIoredis({ ...deps, purpose: 'address failures' });
  const counting = { points: limit, duration: windowMs / SECOND, keyPrefix: PREFIX };
  const here = new RateLimiterMemory(counting);
  let shared: { client: Redis; limiter: RateLimiterAbstract } | null = null;

  /** The limiter on the current connection: it defines its script on the client that it is given. */
  function limiterOn(client: Redis): RateLimiterAbstract {
    if (shared?.client !== client) {
      shared = { client, limiter: new RateLimiterRedis({ ...counting, storeClient: client }) };
    }
    return shared.limiter;
  }

  /** What Redis says; null while it is away or slow. */
  async function ask<T>(question: (limiter: RateLimiterAbstract) => Promise<T>): Promise<T | null> {
    const client = link.current();
    if (client === null) return null;
    try {
      return await within(boundMs, question(limiterOn(client)));
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

/** A provider gives a household a /64: within it, addresses cost nothing. */
const COUNTED_GROUPS = 4;
/** What is no address stays bounded as a key. */
const LONGEST_KEY = 64;

/** Whom failures are counted against: an IPv4 address, or an IPv6 network as `2001:db8:0:1::/64`. */
export function countedAs(text: string): string {
  const address = readAddress(text);
  if (address === null) return text.slice(0, LONGEST_KEY);
  if (isIPv4(address)) return address;
  const network = groupsOf(address).slice(0, COUNTED_GROUPS);
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}
