import { createHash } from 'node:crypto';
import type { Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { insertRow, updateRow } from '#infra/mongo/guarded-row.ts';
import {
  type GuardedUpdate,
  guardedUpdate,
  literal,
  msOf,
  NOW_MS,
  newStamp,
  nowPlus,
  wasAccepted,
} from '#infra/mongo/guarded-update.ts';
import type { DeviceClaims } from '#shared/auth/device.ts';
import { MAX_VERIFIED, QUIET_MS, waitAfter } from '#shared/auth/throttle.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type ThrottleRow, throttles } from './collections.ts';

/** `round` names the count that includes the login attempt; see refundLoginAttempt. */
export type Reservation = { kind: 'granted'; round: string } | { kind: 'refused'; retryAfterMs: number };

/** Time (ms) after which a counted login attempt has been verified or never will be. */
const VERIFIED_WITHIN_MS = MINUTE;

/**
 * Returns the `_id` of an e-mail's row; expects the normalized e-mail. It is a digest, so that the text typed as an address is
 * not stored.
 */
export function throttleKey(email: string): string {
  return createHash('sha256').update('examhall throttle:').update(email).digest('base64url');
}

/** Returns the `_id` of the row that counts the login attempts with the device tokens of a session. */
export function deviceKey({ sid, epoch }: Pick<DeviceClaims, 'sid' | 'epoch'>): string {
  return createHash('sha256').update('examhall device:').update(`${sid} ${epoch}`).digest('base64url');
}

/**
 * Counts a login attempt of a stranger or of a device before its password is verified, or refuses it. Counting first limits the guesses that
 * arrive at the same time. A login attempt is refused while a wait lasts, and after MAX_VERIFIED of them since the last success.
 *
 * A refused login attempt changes nothing, so repeating it does not lock the owner out for longer. `now` is MongoDB's time; it
 * dates the first login attempt and yields `retryAfterMs`. Whether to refuse is decided by `$$NOW`.
 */
export async function reserveLoginAttempt(mongo: Mongo, key: string, now: number): Promise<Reservation> {
  // A success deletes the row, so most login attempts are the first one and cost one command.
  const round = newStamp();
  if (await insertRow(throttles(mongo), rowOf(key, { round, tries: 1, lastTryAt: new Date(now) }))) {
    return { kind: 'granted', round };
  }
  const reserve = reserveUpdate();
  return reservationIn(await writeRow(mongo, key, reserve), reserve, now);
}

/** Returns the update that counts a login attempt if the row allows one more, and if the `further` conditions hold. */
export function reserveUpdate(further: readonly Document[] = []): GuardedUpdate {
  const isQuiet = { $gte: [{ $subtract: [NOW_MS, msOf('$lastTryAt')] }, QUIET_MS] };
  const sinceQuiet = (field: string, anew: unknown) => ({ $cond: [isQuiet, anew, field] });
  const tries = sinceQuiet('$tries', 0);
  return guardedUpdate(
    [...further, { $or: [isQuiet, { $lte: [msOf('$blockedUntil'), NOW_MS] }] }, { $lt: [tries, MAX_VERIFIED] }],
    {
      round: sinceQuiet('$round', literal(newStamp())),
      tries: { $add: [tries, 1] },
      failures: sinceQuiet('$failures', 0),
      blockedUntil: sinceQuiet('$blockedUntil', null),
      lastTryAt: '$$NOW',
    },
  );
}

/** Returns the reservation that the row shows after `reserve`. */
export function reservationIn(row: ThrottleRow, reserve: GuardedUpdate, now: number): Reservation {
  if (wasAccepted(reserve, row)) return { kind: 'granted', round: row.round };
  return { kind: 'refused', retryAfterMs: Math.max(SECOND, waitOf(row, now)) };
}

/** Returns the ms until a refused login attempt may be repeated, as far as the row shows; 0 if the wait has just ended. */
function waitOf(row: ThrottleRow, now: number): number {
  const blockedMs = (row.blockedUntil?.getTime() ?? 0) - now;
  if (blockedMs > 0) return blockedMs;
  const sinceLastMs = now - row.lastTryAt.getTime();
  if (row.tries < MAX_VERIFIED) return 0;
  // Some counted login attempts are still being verified. If one of them has the right password, the count restarts.
  return row.failures < MAX_VERIFIED && sinceLastMs < VERIFIED_WITHIN_MS ? SECOND : QUIET_MS - sinceLastMs;
}

/** Wait (ms) by number of failures. A table, so that the update need not implement the rule a second time. */
const WAITS = Array.from({ length: MAX_VERIFIED + 1 }, (_, failures) => waitAfter(failures));

/**
 * Records that the reserved login attempt had a wrong password. It counts even if a right password cleared the row meanwhile,
 * because it was verified after that. Returns the number of consecutive failures.
 */
export async function recordFailure(mongo: Mongo, key: string): Promise<number> {
  return (await writeRow(mongo, key, failureUpdate())).failures;
}

/** Returns the update that counts the failure of a reserved login attempt and begins the wait that it causes. */
export function failureUpdate(): GuardedUpdate {
  const failures = { $add: ['$failures', 1] };
  const waitMs = { $arrayElemAt: [literal(WAITS), { $min: [failures, MAX_VERIFIED] }] };
  return guardedUpdate([], {
    failures,
    tries: { $max: ['$tries', failures] },
    blockedUntil: { $cond: [{ $gt: [waitMs, 0] }, nowPlus(waitMs), null] },
    lastTryAt: '$$NOW',
  });
}

/**
 * Refunds a reserved login attempt that was never verified (for example because the hash queue was full) and so was no guess.
 * Only the `round` that counted it is changed: a later round does not include it and would allow one login attempt too many.
 */
export async function refundLoginAttempt(mongo: Mongo, key: string, round: string): Promise<void> {
  await throttles(mongo).updateOne({ _id: key }, refundUpdate(round).pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the update of `refundLoginAttempt`. */
export function refundUpdate(round: string): GuardedUpdate {
  const isCounted = [{ $eq: ['$round', literal(round)] }, { $gt: ['$tries', '$failures'] }];
  return guardedUpdate(isCounted, { tries: { $subtract: ['$tries', 1] } });
}

/**
 * Records that the reserved login attempt had the right password: clears failures and wait. Login attempts that are still being
 * verified stay counted. Otherwise a hundred in flight and a hundred new ones could be verified in a row.
 */
export async function recordSuccess(mongo: Mongo, key: string): Promise<void> {
  // Usually this is the only counted login attempt. Without the row the next one is a first one again and costs one command.
  const gone = await throttles(mongo).deleteOne({ _id: key, tries: { $lte: 1 } }, { maxTimeMS: QUERY_LIMIT_MS });
  if (gone.deletedCount === 1) return;
  await throttles(mongo).updateOne({ _id: key }, clearUpdate(1).pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Clears failures and wait after a success that this row did not count: the one of a known pair. */
export async function clearFailures(mongo: Mongo, key: string): Promise<void> {
  await throttles(mongo).updateOne({ _id: key }, clearUpdate(0).pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the update that clears failures and wait. `succeeded`: number of the counted login attempts that have just succeeded. */
export function clearUpdate(succeeded: 0 | 1, more: Readonly<Record<string, unknown>> = {}): GuardedUpdate {
  const inFlight = { $subtract: [{ $subtract: ['$tries', '$failures'] }, literal(succeeded)] };
  return guardedUpdate([], { ...more, tries: { $max: [0, inFlight] }, failures: literal(0), blockedUntil: null });
}

/** Updates the row. A missing one is inserted as quiet since 1970, so that the update of it begins the count. */
function writeRow(mongo: Mongo, key: string, update: GuardedUpdate): Promise<ThrottleRow> {
  const quiet = rowOf(key, { round: newStamp(), tries: 0, lastTryAt: new Date(0) });
  return updateRow(throttles(mongo), quiet, update);
}

function rowOf(key: string, begun: Pick<ThrottleRow, 'round' | 'tries' | 'lastTryAt'>): ThrottleRow {
  return { _id: key, ...begun, failures: 0, blockedUntil: null };
}
