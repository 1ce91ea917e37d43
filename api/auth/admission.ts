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
  type Reservation,
  recordFailure,
  recordSuccess,
  refundLoginAttempt,
  reserveLoginAttempt,
} from '#infra/mongo/auth/throttle.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { HASHER_BUSY } from '#infra/passwords/fair-queue.ts';
import type { AddressTurns, Turn } from '#infra/redis/address-turns.ts';
import type { AuthDeps } from './deps.ts';

type AdmissionDeps = Pick<AuthDeps, 'mongo' | 'now' | 'strangerTurns' | 'evidence' | 'isKnownPair'> & {
  hasher: Pick<AuthDeps['hasher'], 'hasRoom'>;
};

/**
 * A counted login attempt whose password may be verified. One of `failed`, `succeeded` and `refund`
 * is called, once.
 */
export interface Admitted {
  kind: 'admitted';
  /** True if the account signed in from the address within 30 days, or in this browser before. */
  isKnown: boolean;
  /** True if the account did not sign in from the address within 30 days. */
  isNewAddress: boolean;
  /** The password was wrong. `accountId` is null if the e-mail is unknown. */
  failed(accountId: string | null): Promise<void>;
  /** The password was right. */
  succeeded(): Promise<void>;
  /**
   * After `succeeded`: the account has signed in, and is a known pair with the address from now on.
   */
  signedIn(): Promise<void>;
  /** The password could not be verified. */
  refund(): Promise<void>;
}

/** E-mail and address of a login attempt. */
interface Origin {
  email: string;
  address: string;
}

/** Facts about a login attempt that are being read. */
export interface Looking {
  /** The turn of the address; null if the line of its strangers was full before. */
  turn: Promise<Turn> | null;
  /** The deviceKey of a device token of the account; null without one. */
  device: Promise<string | null> | null;
}

interface Refused {
  kind: 'refused';
  /** True if only the count of a known pair requires the wait. */
  isKnown: boolean;
  /** The throttle that refused: that of the account or its known pair, or that of the address. */
  by: 'account' | 'address';
  retryAfterMs: number;
}

/**
 * Counts a login attempt, or refuses it. A known pair depends on its own failures alone, so that
 * neither strangers nor other accounts behind the same address can hold it up. So does a browser
 * with a device token; while it has to wait, the login attempt counts as one without the token. A
 * stranger needs both the throttle of the account and a turn of the address.
 *
 * A taken turn and a full line of the hash queue refuse before the account is counted, so that a
 * refused flood costs MongoDB reads that many logins share.
 *
 * @throws HasherBusy for a stranger, if the line of strangers from the address is full
 */
export async function admit(deps: AdmissionDeps, origin: Origin, looking: Looking): Promise<Admitted | Refused> {
  const { mongo, now, hasher, isKnownPair } = deps;
  const { address } = origin;
  const pair = pairOf(origin.email, address);
  // Reads come before counts, so that a read that fails leaves no count behind.
  const lookedUp = looking.device === null ? null : isKnownPair(pair);
  const [turn, device, isHere] = await Promise.all([looking.turn, looking.device, lookedUp]);
  const attempt = { pair, address };

  const byDevice = device === null ? null : await reserveLoginAttempt(mongo, device, now());
  if (device !== null && byDevice?.kind === 'granted') {
    const isNewAddress = isHere !== true;
    return admitted(deps, attempt, { ...ofKey(mongo, device, byDevice.round), isKnown: true, isNewAddress });
  }

  const hasRoom = () => hasRoomForStranger(hasher, origin);
  const isStranger = refusesStrangers(turn, hasRoom) && !(await isKnownPair(pair));
  const byPair = isStranger ? STRANGER : await reservePairAttempt(mongo, pair, now());
  if (byPair.kind === 'refused') return { ...byPair, by: 'account', isKnown: true };
  if (byPair.kind === 'granted') {
    return admitted(deps, attempt, { ...ofPair(mongo, pair, byPair.round), isKnown: true, isNewAddress: false });
  }

  const counted = await reserveAsStranger(deps, { account: pair.account, address, hasRoom }, turn);
  if (counted.kind === 'refused') return counted;
  return admitted(deps, attempt, { ...ofKey(mongo, pair.account, counted.round), isKnown: false, isNewAddress: true });
}

/** The count that includes a login attempt. */
interface Count {
  key: string;
  failed(): Promise<number>;
  succeeded(): Promise<void>;
  refund(): Promise<void>;
}

function ofKey(mongo: Mongo, key: string, round: string): Count {
  return {
    key,
    failed: () => recordFailure(mongo, key),
    succeeded: () => recordSuccess(mongo, key),
    refund: () => refundLoginAttempt(mongo, key, round),
  };
}

function ofPair(mongo: Mongo, pair: Pair, round: string): Count {
  return {
    key: pair.key,
    failed: () => recordPairFailure(mongo, pair),
    succeeded: () => recordPairSuccess(mongo, pair),
    refund: () => refundPairAttempt(mongo, pair, round),
  };
}

function admitted(
  { mongo, now, strangerTurns, evidence }: AdmissionDeps,
  { pair, address }: { pair: Pair; address: string },
  count: Count & Pick<Admitted, 'isKnown' | 'isNewAddress'>,
): Admitted {
  const { key, isKnown, isNewAddress, refund } = count;
  const { account } = pair;
  return {
    kind: 'admitted',
    isKnown,
    isNewAddress,
    async failed(accountId) {
      const noted = strangerTurns.failed(address, account);
      const failures = await count.failed();
      await Promise.all([noted, evidence.failed({ key, accountId, address, isKnown, failures })]);
    },
    async succeeded() {
      const cleared = isKnown ? [clearFailures(mongo, account)] : [];
      await Promise.all([count.succeeded(), ...cleared, strangerTurns.succeeded(address, account)]);
    },
    async signedIn() {
      if (key !== pair.key) await learnPair(mongo, pair, now());
    },
    refund,
  };
}

const STRANGER = { kind: 'stranger' } as const;

/** Returns true if the line of strangers from the address has room for this account. */
export function hasRoomForStranger(hasher: AdmissionDeps['hasher'], { email, address }: Origin): boolean {
  return hasher.hasRoom({ kind: 'stranger', address, account: email });
}

/** Returns true if a login attempt of a stranger is refused now; `turn` as in `Looking`. */
export function refusesStrangers(turn: Turn | null, hasRoom: () => boolean): boolean {
  return turn === null || turn.waitMs > 0 || !hasRoom();
}

/**
 * Counts a login attempt of a stranger, unless a taken turn or a full hash queue refuses it.
 * @throws HasherBusy
 */
async function reserveAsStranger(
  { mongo, now, strangerTurns, evidence }: AdmissionDeps,
  { account, address, hasRoom }: { account: string; address: string; hasRoom: () => boolean },
  turn: Turn | null,
): Promise<Exclude<Reservation, { kind: 'refused' }> | Refused> {
  if (turn === null) throw HASHER_BUSY;
  const { spacingMs, waitMs } = turn;
  const refused = { kind: 'refused', by: 'address', isKnown: false } as const;
  if (spacingMs > 0) await evidence.slowed(address, spacingMs);
  if (waitMs > 0) return { ...refused, retryAfterMs: waitMs };
  if (!hasRoom()) throw HASHER_BUSY;
  const reserved = await reserveLoginAttempt(mongo, account, now());
  if (reserved.kind === 'refused') return { ...refused, ...reserved, by: 'account' };
  const takenMs = await takeTurn(strangerTurns, address, turn);
  if (takenMs === 0) return reserved;
  await refundLoginAttempt(mongo, account, reserved.round);
  return { ...refused, retryAfterMs: takenMs };
}

/**
 * Returns the ms that a stranger from this address would have to wait now, instead of having its
 * password verified; 0 if the password would be verified. A free turn is taken, as a stranger
 * would.
 */
export async function strangersWait(
  { strangerTurns }: Pick<AdmissionDeps, 'strangerTurns'>,
  address: string,
): Promise<number> {
  return takeTurn(strangerTurns, address, await strangerTurns.look(address));
}

/** Takes the turn that was read, if one is needed and free. Returns 0, or the ms to wait. */
export async function takeTurn(turns: AddressTurns, address: string, { spacingMs, waitMs }: Turn): Promise<number> {
  return spacingMs === 0 || waitMs > 0 ? waitMs : turns.take(address, spacingMs);
}
