import { type Guard, SMALL_BODY } from '#api/route.ts';
import type { CountedAddress } from './caller-address.ts';
import type { Exchange, Share } from './exchange.ts';

/**
 * Kinds of callers whose bodies are read. `identified`: the gateway or a service vouches for them. `accounts`: their access token is
 * valid. `anonymous`: their head proves nothing. No kind can use up what belongs to another.
 */
export const CALLERS = ['identified', 'accounts', 'anonymous'] as const;
export type Callers = (typeof CALLERS)[number];

/** Returns the callers whose body a route reads, by the guards that they have passed. */
export function callersOf(guards: readonly Pick<Guard, 'proves'>[]): Callers {
  const proofs = new Set(guards.map(({ proves }) => proves));
  if (proofs.has('identity')) return 'identified';
  return proofs.has('account') ? 'accounts' : 'anonymous';
}

/**
 * Limits what the requests of one kind of callers hold at once. Without it, a few hundred concurrent large starts would fill the heap
 * although each is within its own limit. A byte counts once it has arrived: an announced length costs its sender nothing.
 */
export interface BodyBudget {
  /** Bytes that these callers may hold together. */
  limit: number;
  /** Returns the bytes that their requests hold. */
  used(): number;
  /** Counts a request until its release. Returns false and counts nothing if a limit is reached. */
  enter(exchange: Exchange): boolean;
  /** Adds bytes that have arrived. Returns false and adds nothing if a limit would be exceeded. */
  charge(exchange: Exchange, bytes: number): boolean;
  /** Releases all that the exchange holds. */
  release(exchange: Exchange): void;
}

/** Opens the budget of identified callers: `limit` bytes for all of them together, and any number of requests. */
export function openBodyBudget(limit: number): BodyBudget {
  let used = 0;
  const budget: BodyBudget = {
    limit,
    used: () => used,
    enter(exchange) {
      exchange.budget = budget;
      return true;
    },
    charge(exchange, bytes) {
      if (used + bytes > limit) return false;
      used += bytes;
      exchange.bodyBytes += bytes;
      return true;
    },
    release(exchange) {
      used -= exchange.bodyBytes;
    },
  };
  return budget;
}

/** Limits of one kind of callers, for all addresses together. */
export interface ShareLimits {
  bodyBytes: number;
  requests: number;
}

/** Limits of a process, from which those of callers without an identity follow. */
export interface ProcessLimits {
  /** Bytes of bodies of identified callers that the process holds at once. */
  bodyBudgetBytes: number;
  /** Connections that the process holds at once. */
  maxConnections: number;
}

/** One address may hold this part of a limit, so that no address alone can use it up. */
const PART = 1 / 8;

/**
 * Returns the limits of callers with an account and of anonymous ones. Half of the connections remain for others, whatever anonymous
 * callers have in flight. At the defaults, 2,048 people behind one address may wait for their login at once. Every address can send
 * one body of the largest size.
 */
export function sharesOf({
  bodyBudgetBytes,
  maxConnections,
}: ProcessLimits): Record<'accounts' | 'anonymous', ShareLimits> {
  const bodyBytes = Math.max(bodyBudgetBytes / 8, SMALL_BODY / PART);
  return {
    accounts: { bodyBytes, requests: maxConnections / 8 },
    anonymous: { bodyBytes, requests: maxConnections / 2 },
  };
}

/** Opens a budget that addresses share. `addressOf` returns the address of a request. */
export function openSharedBudget(limits: ShareLimits, addressOf: CountedAddress): BodyBudget {
  const shares = new Map<string, Share>();
  const used = { bodyBytes: 0, requests: 0 };

  function fits(share: Share, what: keyof ShareLimits, more: number): boolean {
    return used[what] + more <= limits[what] && share[what] + more <= limits[what] * PART;
  }

  const budget: BodyBudget = {
    limit: limits.bodyBytes,
    used: () => used.bodyBytes,
    enter(exchange) {
      const { socket, headers } = exchange.request;
      const address = addressOf({ peer: socket.remoteAddress ?? '', headers: headers as Record<string, string> });
      const share = shares.get(address) ?? { address, bodyBytes: 0, requests: 0 };
      if (!fits(share, 'requests', 1)) return false;
      share.requests += 1;
      used.requests += 1;
      shares.set(address, share);
      exchange.budget = budget;
      exchange.share = share;
      return true;
    },
    charge(exchange, bytes) {
      const { share } = exchange;
      if (share === undefined || !fits(share, 'bodyBytes', bytes)) return false;
      share.bodyBytes += bytes;
      used.bodyBytes += bytes;
      exchange.bodyBytes += bytes;
      return true;
    },
    release({ share, bodyBytes }) {
      if (share === undefined) return;
      share.bodyBytes -= bodyBytes;
      used.bodyBytes -= bodyBytes;
      share.requests -= 1;
      used.requests -= 1;
      if (share.requests === 0) shares.delete(share.address);
    },
  };
  return budget;
}
