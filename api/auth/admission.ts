import {
  learnPair,
  pairOf,
  recordPairFailure,
  recordPairSuccess,
  refundPairAttempt,
  reservePairAttempt,
} from '#infra/mongo/auth/known-pairs.ts';
import {
  clearFailures,
  type Reservation,
  recordFailure,
  recordSuccess,
  refundLoginAttempt,
  reserveLoginAttempt,
} from '#infra/mongo/auth/throttle.ts';
import { HASHER_BUSY } from '#infra/passwords/fair-queue.ts';
import type { Turn } from '#infra/redis/stranger-turns.ts';
import type { AuthDeps } from './deps.ts';

type AdmissionDeps = Pick<AuthDeps, 'mongo' | 'now' | 'strangerTurns' | 'evidence' | 'isKnownPair'> & {
  hasher: Pick<AuthDeps['hasher'], 'hasRoom'>;
};

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

/** E-mail and address of a login attempt. */
interface Origin {
  email: string;
  address: string;
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
 * A taken turn and a full line of the hash queue refuse before the account is counted, so that a refused flood costs MongoDB reads that
 * many logins share. `looking`: the turn of the address, which is being read; null if the line of its strangers was full before.
 *
 * @throws HasherBusy for a stranger, if the line of strangers from the address is full
 */
export async function admit(
  deps: AdmissionDeps,
  { email, address }: Origin,
  looking: Promise<Turn> | null,
): Promise<Admitted | Refused> {
  const { mongo, now, strangerTurns, evidence, hasher, isKnownPair } = deps;
  const pair = pairOf(email, address);
  const { account } = pair;
  const turn = await looking;
  const hasRoom = () => hasRoomForStranger(hasher, { email, address });
  const isStranger = refusesStrangers(turn, hasRoom) && !(await isKnownPair(pair));
  const known = isStranger ? STRANGER : await reservePairAttempt(mongo, pair, now());
  if (known.kind === 'refused') return { ...known, by: 'account' };
  const isKnown = known.kind === 'granted';
  const counted = isKnown ? known : await reserveAsStranger(deps, { account, address, hasRoom }, turn);
  if (counted.kind === 'refused') return counted;
  const { round } = counted;
  return {
    kind: 'admitted',
    isKnown,
    async failed(accountId) {
      const noted = strangerTurns.failed(address, account);
      const failures = await (isKnown ? recordPairFailure(mongo, pair) : recordFailure(mongo, account));
      const key = isKnown ? pair.key : account;
      await Promise.all([noted, evidence.failed({ key, accountId, address, isKnown, failures })]);
    },
    async succeeded() {
      const recorded = isKnown
        ? [recordPairSuccess(mongo, pair), clearFailures(mongo, account)]
        : [recordSuccess(mongo, account)];
      await Promise.all([...recorded, strangerTurns.succeeded(address, account)]);
    },
    async signedIn() {
      if (!isKnown) await learnPair(mongo, pair, now());
    },
    refund: () => (isKnown ? refundPairAttempt(mongo, pair, round) : refundLoginAttempt(mongo, account, round)),
  };
}

const STRANGER = { kind: 'stranger' } as const;

/** Returns true if the line of strangers from the address has room for this account. */
export function hasRoomForStranger(hasher: AdmissionDeps['hasher'], { email, address }: Origin): boolean {
  return hasher.hasRoom({ kind: 'stranger', address, account: email });
}

/** Returns true if a login attempt of a stranger is refused now; `turn` as in `admit`. */
export function refusesStrangers(turn: Turn | null, hasRoom: () => boolean): boolean {
  return turn === null || turn.waitMs > 0 || !hasRoom();
}

/** Counts a login attempt of a stranger, unless a taken turn or a full hash queue refuses it. @throws HasherBusy */
async function reserveAsStranger(
  { mongo, now, strangerTurns, evidence }: AdmissionDeps,
  { account, address, hasRoom }: { account: string; address: string; hasRoom: () => boolean },
  turn: Turn | null,
): Promise<Exclude<Reservation, { kind: 'refused' }> | Refused> {
  if (turn === null) throw HASHER_BUSY;
  const { spacingMs, waitMs } = turn;
  if (spacingMs > 0) await evidence.slowed(address, spacingMs);
  if (waitMs > 0) return { kind: 'refused', by: 'address', retryAfterMs: waitMs };
  if (!hasRoom()) throw HASHER_BUSY;
  const reserved = await reserveLoginAttempt(mongo, account, now());
  if (reserved.kind === 'refused') return { ...reserved, by: 'account' };
  const takenMs = spacingMs === 0 ? 0 : await strangerTurns.take(address, spacingMs);
  if (takenMs === 0) return reserved;
  await refundLoginAttempt(mongo, account, reserved.round);
  return { kind: 'refused', by: 'address', retryAfterMs: takenMs };
}
