import { type Guard, type Identity, SMALL_BODY } from '#api/route.ts';
import type { CountedAddress } from './caller-address.ts';
import type { Exchange } from './exchange.ts';

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

/** A caller whose requests share a budget with those of others. */
export interface Holder {
  name: string;
  /** Part of both limits that the caller may hold. */
  part: number;
  /** Bytes that the caller may hold even if they are a larger part. */
  leastBytes: number;
}

/** Part of one identified caller. At the default budget, eight saves of 1 MiB at once, or one start or event of 8 MiB. */
const CALLER_PART = 1 / 32;
/** Part of a network among the callers that are not identified. */
const NETWORK_PART = 1 / 8;

/**
 * Returns the identified caller of a request, who may hold at least one body of the largest size of its route. A service that passes on a
 * person counts as that person.
 */
export function holderOf({ actor, sender, operator }: Identity, leastBytes: number): Holder {
  const part = CALLER_PART;
  if (actor !== undefined) return { name: `person ${actor.id}`, part, leastBytes };
  if (sender !== undefined) return { name: `service ${sender}`, part, leastBytes };
  return { name: `operator ${operator ?? ''}`, part, leastBytes };
}

/** Returns a function that finds the network of a caller who is not identified. */
export function networkHolders(networkOf: CountedAddress): (exchange: Pick<Exchange, 'request'>) => Holder {
  return ({ request: { socket, headers } }) => {
    const peer = socket.remoteAddress ?? '';
    return { name: networkOf({ peer, headers: headers as Record<string, string> }), part: NETWORK_PART, leastBytes: 0 };
  };
}

/** Limits of one kind of callers together. */
export interface ShareLimits {
  bodyBytes: number;
  requests: number;
}

/** Limits of a process, from which those of each kind follow. */
export interface ProcessLimits {
  /** Bytes of bodies of identified callers that the process holds at once. */
  bodyBudgetBytes: number;
  /** Connections that the process holds at once. */
  maxConnections: number;
}

/**
 * Returns the limits of each kind of callers. Half of the connections remain for others, whatever anonymous callers have in flight. At
 * the defaults, 2,048 people behind one address may wait for their login at once. Every network can send one body of the largest size.
 */
export function limitsOf({ bodyBudgetBytes, maxConnections }: ProcessLimits): Record<Callers, ShareLimits> {
  const bodyBytes = Math.max(bodyBudgetBytes / 8, SMALL_BODY / NETWORK_PART);
  return {
    identified: { bodyBytes: bodyBudgetBytes, requests: Number.POSITIVE_INFINITY },
    accounts: { bodyBytes, requests: maxConnections / 8 },
    anonymous: { bodyBytes, requests: maxConnections / 2 },
  };
}

/** The part of a budget that one request holds, until its release. */
export interface Holding {
  /** Adds bytes that have arrived. Returns false and adds nothing if a limit would be exceeded. */
  charge(bytes: number): boolean;
  release(): void;
}

/**
 * Limits what the requests of one kind of callers hold at once. Without it, a few hundred concurrent large starts would fill the heap
 * although each is within its own limit. A byte counts once it has arrived: an announced length costs its sender nothing. No caller alone
 * can use up the budget, because each has a share: a part of both limits.
 */
export interface BodyBudget {
  /** Bytes that these callers may hold together. */
  limit: number;
  /** Returns the bytes that their requests hold. */
  used(): number;
  /** Counts a request of this caller. Returns null and counts nothing if a limit of requests is reached. */
  enter(holder: Holder): Holding | null;
}

/** Opens the budget of one kind of callers. */
export function openBodyBudget(limits: ShareLimits): BodyBudget {
  const used: ShareLimits = { bodyBytes: 0, requests: 0 };
  const shares = new Map<string, ShareLimits>();
  return {
    limit: limits.bodyBytes,
    used: () => used.bodyBytes,
    enter({ name, part, leastBytes }) {
      const share = shares.get(name) ?? { bodyBytes: 0, requests: 0 };
      if (used.requests + 1 > limits.requests || share.requests + 1 > limits.requests * part) return null;
      const mostBytes = Math.max(limits.bodyBytes * part, leastBytes);
      let held = 0;
      used.requests += 1;
      share.requests += 1;
      shares.set(name, share);
      return {
        charge(bytes) {
          if (used.bodyBytes + bytes > limits.bodyBytes || share.bodyBytes + bytes > mostBytes) return false;
          used.bodyBytes += bytes;
          share.bodyBytes += bytes;
          held += bytes;
          return true;
        },
        release() {
          used.bodyBytes -= held;
          share.bodyBytes -= held;
          used.requests -= 1;
          share.requests -= 1;
          if (share.requests === 0) shares.delete(name);
        },
      };
    },
  };
}
