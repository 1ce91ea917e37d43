import {
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
import type { AuthDeps } from './deps.ts';

type AdmissionDeps = Pick<AuthDeps, 'mongo' | 'now' | 'strangerTurns' | 'evidence'>;

/** A counted login attempt whose password may be verified. One of `failed`, `succeeded` and `refund` is called, once. */
export interface Admitted {
  kind: 'admitted';
  /** True if the account signed in from the address within 30 days. */
  isKnown: boolean;
  /** The password was wrong. `accountId` is null if the e-mail is unknown. */
  failed(accountId: string | null): Promise<void>;
  /** The password was right. */
  succeeded(): Promise<void>;
  /** After `succeeded`: the account has signed in, so the account and the address are a known pair from now on. */
  signedIn(): Promise<void>;
  /** The password could not be verified. */
  refund(): Promise<void>;
}

interface Refused {
  kind: 'refused';
  /** The throttle that refused: that of the account or its known pair, or that of the address. */
  by: 'account' | 'address';
  retryAfterMs: number;
}

/**
 * Counts a login attempt, or refuses it. A known pair depends on its own failures alone, so that neither strangers nor other
 * accounts behind the same address can hold it up. A stranger needs both the throttle of the account and a turn of the address.
 *
 * A taken turn refuses before the account is counted, so that refused floods cost MongoDB one command each.
 */
export async function admit(deps: AdmissionDeps, email: string, address: string): Promise<Admitted | Refused> {
  const { mongo, now, strangerTurns, evidence } = deps;
  const pair = pairOf(email, address);
  const looking = strangerTurns.look(address);
  const known = await reservePairAttempt(mongo, pair, now());
  if (known.kind === 'refused') return { ...known, by: 'account' };
  if (known.kind === 'granted') return knownAdmission(deps, pair, address, known.round);
  const turn = await looking;
  if (turn.spacingMs > 0) await evidence.slowed(address, turn.spacingMs);
  if (turn.waitMs > 0) return { kind: 'refused', by: 'address', retryAfterMs: turn.waitMs };
  const reserved = await reserveLoginAttempt(mongo, pair.account, now());
  if (reserved.kind === 'refused') return { ...reserved, by: 'account' };
  const waitMs = turn.spacingMs === 0 ? 0 : await strangerTurns.take(address, turn.spacingMs);
  if (waitMs === 0) return strangerAdmission(deps, pair, address, reserved.round);
  await refundLoginAttempt(mongo, pair.account, reserved.round);
  return { kind: 'refused', by: 'address', retryAfterMs: waitMs };
}

function knownAdmission(deps: AdmissionDeps, pair: Pair, address: string, round: string): Admitted {
  const { mongo, strangerTurns, evidence } = deps;
  return {
    kind: 'admitted',
    isKnown: true,
    async failed(accountId) {
      const noted = strangerTurns.failed(address, pair.account);
      const failures = await recordPairFailure(mongo, pair);
      await Promise.all([noted, evidence.failed({ key: pair.key, accountId, address, isKnown: true, failures })]);
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
  const { mongo, strangerTurns, evidence } = deps;
  return {
    kind: 'admitted',
    isKnown: false,
    async failed(accountId) {
      const noted = strangerTurns.failed(address, pair.account);
      const failures = await recordFailure(mongo, pair.account);
      await Promise.all([noted, evidence.failed({ key: pair.account, accountId, address, isKnown: false, failures })]);
    },
    async succeeded() {
      await Promise.all([recordSuccess(mongo, pair.account), strangerTurns.succeeded(address, pair.account)]);
    },
    signedIn: () => learnPair(mongo, pair, deps.now()),
    refund: () => refundLoginAttempt(mongo, pair.account, round),
  };
}
