import {
  isKnownPair,
  learnPair,
  type Pair,
  pairOf,
  recordPairFailure,
  recordPairSuccess,
  refundPairAttempt,
  reservePairAttempt,
} from '#infra/mongo/auth/known-pairs.ts';
import {
  clearFailures,
  recordFailure,
  recordSuccess,
  refundLoginAttempt,
  reserveLoginAttempt,
} from '#infra/mongo/auth/throttle.ts';
import { HASHER_BUSY } from '#infra/passwords/fair-queue.ts';
import type { AuthDeps } from './deps.ts';

type AdmissionDeps = Pick<AuthDeps, 'mongo' | 'now' | 'strangerTurns'> & {
  hasher: Pick<AuthDeps['hasher'], 'hasRoom'>;
};

/** The state of strangers at an address, before a login attempt from there is counted. */
export type Look = ReturnType<AuthDeps['strangerTurns']['look']>;

/** A counted login attempt whose password may be verified. One of `failed`, `succeeded` and `refund` is called, once. */
export interface Admitted {
  kind: 'admitted';
  /** True if the account signed in from the address within 30 days. */
  isKnown: boolean;
  /** The password was wrong. */
  failed(): Promise<void>;
  /** The password was right. */
  succeeded(): Promise<void>;
  /** After `succeeded`: the account has signed in, so the account and the address are a known pair from now on. */
  signedIn(): Promise<void>;
  /** The password could not be verified. */
  refund(): Promise<void>;
}

interface Refused {
  kind: 'refused';
  retryAfterMs: number;
}

/**
 * Counts a login attempt, or refuses it. A known pair depends on its own failures alone, so that neither strangers nor other
 * accounts behind the same address can hold it up. A stranger needs both the throttle of the account and a turn of the address.
 *
 * A taken turn and a full line of the hash queue refuse before the account is counted, so that refused floods cost MongoDB one read
 * each. `looking`: the turn of the address, which is being read.
 *
 * @throws HasherBusy for a stranger, if the line of strangers from the address is full
 */
export async function admit(
  deps: AdmissionDeps,
  { email, address }: { email: string; address: string },
  looking: Look,
): Promise<Admitted | Refused> {
  const { mongo, now, strangerTurns, hasher } = deps;
  const pair = pairOf(email, address);
  const turn = await looking;
  const hasRoom = () => hasher.hasRoom({ kind: 'stranger', name: address });
  if ((turn.waitMs > 0 || !hasRoom()) && !(await isKnownPair(mongo, pair, now()))) return refuseStranger(turn);
  const known = await reservePairAttempt(mongo, pair, now());
  if (known.kind === 'refused') return known;
  if (known.kind === 'granted') return knownAdmission(deps, pair, address, known.round);
  if (turn.waitMs > 0 || !hasRoom()) return refuseStranger(turn);
  const reserved = await reserveLoginAttempt(mongo, pair.account, now());
  if (reserved.kind === 'refused') return reserved;
  const waitMs = turn.spacingMs === 0 ? 0 : await strangerTurns.take(address, turn.spacingMs);
  if (waitMs === 0) return strangerAdmission(deps, pair, address, reserved.round);
  await refundLoginAttempt(mongo, pair.account, reserved.round);
  return { kind: 'refused', retryAfterMs: waitMs };
}

/** Refuses a stranger whose address has no free turn, or else no room in the hash queue. @throws HasherBusy */
function refuseStranger({ waitMs }: Awaited<Look>): Refused {
  if (waitMs > 0) return { kind: 'refused', retryAfterMs: waitMs };
  throw HASHER_BUSY;
}

function knownAdmission(deps: AdmissionDeps, pair: Pair, address: string, round: string): Admitted {
  const { mongo, strangerTurns } = deps;
  return {
    kind: 'admitted',
    isKnown: true,
    async failed() {
      await Promise.all([recordPairFailure(mongo, pair), strangerTurns.failed(address, pair.account)]);
    },
    async succeeded() {
      await Promise.all([
        recordPairSuccess(mongo, pair),
        clearFailures(mongo, pair.account),
        strangerTurns.succeeded(address, pair.account),
      ]);
    },
    signedIn: async () => undefined,
    refund: () => refundPairAttempt(mongo, pair, round),
  };
}

function strangerAdmission(deps: AdmissionDeps, pair: Pair, address: string, round: string): Admitted {
  const { mongo, strangerTurns } = deps;
  return {
    kind: 'admitted',
    isKnown: false,
    async failed() {
      await Promise.all([recordFailure(mongo, pair.account), strangerTurns.failed(address, pair.account)]);
    },
    async succeeded() {
      await Promise.all([recordSuccess(mongo, pair.account), strangerTurns.succeeded(address, pair.account)]);
    },
    signedIn: () => learnPair(mongo, pair, deps.now()),
    refund: () => refundLoginAttempt(mongo, pair.account, round),
  };
}
