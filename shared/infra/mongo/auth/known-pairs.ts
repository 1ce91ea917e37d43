import { createHash } from 'node:crypto';
import DataLoader from 'dataloader';
import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { insertRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, msOf, NOW_MS, newStamp } from '#infra/mongo/guarded-update.ts';
import { KNOWN_FOR_MS } from '#shared/auth/address-rule.ts';
import type { Now } from '#shared/kernel/time.ts';
import { knownPairs } from './collections.ts';
import {
  clearUpdate,
  failureUpdate,
  type Reservation,
  refundUpdate,
  reservationIn,
  reserveUpdate,
  throttleKey,
} from './throttle.ts';

/** An account, perhaps unknown, and an address. Both are stored as digests. */
export interface Pair {
  key: string;
  /** throttleKey of the e-mail. */
  account: string;
}

/** Returns the pair of a normalized e-mail and the address under which its caller is counted. */
export function pairOf(email: string, address: string): Pair {
  const account = throttleKey(email);
  const key = createHash('sha256').update('examhall pair:').update(`${account} ${address}`).digest('base64url');
  return { key, account };
}

/**
 * Counts a login attempt of a known pair before its password is verified, or refuses it, by the rule of `reserveLoginAttempt` on the counts
 * of this pair alone. Returns `stranger`, and counts nothing, if the account has not signed in from there within KNOWN_FOR_MS.
 */
export async function reservePairAttempt(
  mongo: Mongo,
  { key }: Pair,
  now: number,
): Promise<Reservation | { kind: 'stranger' }> {
  const isKnown = { $lt: [{ $subtract: [NOW_MS, msOf('$signedInAt')] }, KNOWN_FOR_MS] };
  const reserve = reserveUpdate([isKnown]);
  const row = await knownPairs(mongo).findOneAndUpdate({ _id: key }, reserve.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  if (row === null) return { kind: 'stranger' };
  const reserved = reservationIn(row, reserve, now);
  // MongoDB deletes an expired row with a delay.
  return reserved.kind === 'refused' && now - row.signedInAt.getTime() >= KNOWN_FOR_MS
    ? { kind: 'stranger' }
    : reserved;
}

/** Returns true if the account signed in from the address within KNOWN_FOR_MS. */
export type PairLookup = (pair: Pair) => Promise<boolean>;

/**
 * Opens a look-up that only reads. It sends one read at a time; look-ups during a read share the next one. A flood of logins
 * then costs few reads.
 */
export function openPairLookup(mongo: Mongo, now: Now): PairLookup {
  let last: Promise<unknown> = Promise.resolve();
  const loader = new DataLoader<string, boolean>(
    (keys) => {
      const known = areKnown(mongo, keys, now());
      last = known.catch(() => undefined);
      return known;
    },
    { cache: false, batchScheduleFn: (send) => void last.then(send) },
  );
  return ({ key }) => loader.load(key);
}

async function areKnown(mongo: Mongo, keys: readonly string[], now: number): Promise<boolean[]> {
  const rows = await knownPairs(mongo)
    .find({ _id: { $in: [...keys] } }, { projection: { signedInAt: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const known = new Set(rows.filter((row) => now - row.signedInAt.getTime() < KNOWN_FOR_MS).map(({ _id }) => _id));
  return keys.map((key) => known.has(key));
}

/** Records that the reserved login attempt of a known pair had a wrong password. Returns the number of consecutive failures. */
export async function recordPairFailure(mongo: Mongo, { key }: Pair): Promise<number> {
  const row = await knownPairs(mongo).findOneAndUpdate({ _id: key }, failureUpdate().pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return row?.failures ?? 0;
}

/** Refunds a reserved login attempt of a known pair, like `refundLoginAttempt`. */
export async function refundPairAttempt(mongo: Mongo, { key }: Pair, round: string): Promise<void> {
  await knownPairs(mongo).updateOne({ _id: key }, refundUpdate(round).pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Records that the reserved login attempt of a known pair had the right password: clears its failures, its wait and its age. */
export async function recordPairSuccess(mongo: Mongo, { key }: Pair): Promise<void> {
  await knownPairs(mongo).updateOne({ _id: key }, clearUpdate(1, { signedInAt: '$$NOW' }).pipeline, {
    maxTimeMS: QUERY_LIMIT_MS,
  });
}

/** Makes a pair known from now on, because the account has just signed in from the address. A known pair keeps its counts. */
export async function learnPair(mongo: Mongo, { key, account }: Pair, now: number): Promise<void> {
  const at = new Date(now);
  const update = guardedUpdate([], { signedInAt: '$$NOW' });
  const known = await knownPairs(mongo).updateOne({ _id: key }, update.pipeline, { maxTimeMS: QUERY_LIMIT_MS });
  if (known.matchedCount === 1) return;
  const counts = { round: newStamp(), tries: 0, failures: 0, blockedUntil: null, lastTryAt: at };
  // If the row exists by now, a concurrent sign-in has just made the same pair known.
  await insertRow(knownPairs(mongo), { _id: key, account, signedInAt: at, ...counts });
}

/** Clears the counts of every pair of an account, within an operator's transaction. The pairs stay known. Returns their number. */
export async function clearPairs(mongo: Mongo, account: string, session: ClientSession): Promise<number> {
  const cleared = await knownPairs(mongo).updateMany(
    { account, tries: { $gt: 0 } },
    { $set: { round: newStamp(), tries: 0, failures: 0, blockedUntil: null } },
    { session },
  );
  return cleared.modifiedCount;
}
