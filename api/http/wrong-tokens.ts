import { LRUCache } from 'lru-cache';
import type { Call, Guard, Head } from '#api/route.ts';
import type { Log } from '#infra/log/log.ts';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { networkOf, openCountedAddress } from './caller-address.ts';

/** Kinds of tokens that are guessed. `console`: OPS_TOKEN in the form of the console, typed by a person. */
export const TOKEN_KINDS = ['operator', 'gateway', 'service', 'console'] as const;
export type TokenKind = (typeof TOKEN_KINDS)[number];

/** Outcomes of a wrong token. `limited`: its network had sent too many of its kind. */
export const TOKEN_OUTCOMES = ['refused', 'limited'] as const;

/** Counts wrong tokens by network in one process, and limits those of operators. A right token passes whatever its network has sent. */
export interface WrongTokens {
  /** Counts a wrong token. Returns the seconds for which its network gets 429 for others of this kind, or null below the limit, if the kind has one. */
  count(call: Pick<Call, 'peer' | 'headers'>, kind: TokenKind): number | null;
}

export interface WrongTokenDeps {
  trustedProxies: readonly string[];
  log: Pick<Log, 'warn'>;
  /** Returns the hash that names an address in the log, or undefined if it is not known yet. */
  addressHash: (address: string) => string | undefined;
  counted: (kind: TokenKind, outcome: (typeof TOKEN_OUTCOMES)[number]) => void;
  /** Returns ms that never decrease. */
  clock?: () => number;
}

/**
 * Wrong tokens of each kind that a network may send within WINDOW_MS. A gateway or service with an outdated token sends many in good faith,
 * and must learn from each reply that its token is wrong.
 */
const MOST: Readonly<Record<TokenKind, number>> = {
  operator: 100,
  gateway: Number.POSITIVE_INFINITY,
  service: Number.POSITIVE_INFINITY,
  console: 10,
};
const WINDOW_MS = 5 * MINUTE;
/** A network is logged once in this time, with the number of its wrong tokens since the last line. */
const LOGGED_MS = MINUTE;
/** Networks that are counted at once; beyond it the one that was seen longest ago is forgotten. */
const MAX_NETWORKS = 10_000;

interface Sender {
  endsAt: number;
  counts: Partial<Record<TokenKind, number>>;
  loggedAt: number;
  unlogged: number;
}

/** Opens the count of a process. */
export function openWrongTokens(deps: WrongTokenDeps): WrongTokens {
  const { log, addressHash, counted, clock = () => performance.now() } = deps;
  const addressOf = openCountedAddress(deps.trustedProxies);
  const senders = new LRUCache<string, Sender>({ max: MAX_NETWORKS });

  function senderOf(network: string, now: number): Sender {
    const known = senders.get(network);
    if (known !== undefined && known.endsAt > now) return known;
    const fresh = { endsAt: now + WINDOW_MS, counts: {}, loggedAt: Number.NEGATIVE_INFINITY, unlogged: 0 };
    senders.set(network, fresh);
    return fresh;
  }

  return {
    count(call, kind) {
      const [now, address] = [clock(), addressOf(call)];
      const sender = senderOf(networkOf(address), now);
      const before = sender.counts[kind] ?? 0;
      const isLimited = before >= MOST[kind];
      sender.counts[kind] = before + 1;
      counted(kind, isLimited ? 'limited' : 'refused');
      sender.unlogged += 1;
      if (now - sender.loggedAt >= LOGGED_MS) {
        log.warn({ address: addressHash(address), kind, wrong: sender.unlogged }, 'wrong token refused');
        sender.loggedAt = now;
        sender.unlogged = 0;
      }
      return isLimited ? (sender.endsAt - now) / 1_000 : null;
    },
  };
}

/** Returns the kind of a wrong token that a refused request carries, or undefined. A known caller without the right has guessed none. */
export function guessIn(guards: readonly Guard[], head: Head, { rejected }: Rejection): TokenKind | undefined {
  const { status } = ERRORS[rejected];
  if (rejected === 'FORBIDDEN' || (status !== 401 && status !== 403)) return undefined;
  for (const guard of guards) {
    const kind = guard.wrongToken?.(head);
    if (kind !== undefined) return kind;
  }
  return undefined;
}
