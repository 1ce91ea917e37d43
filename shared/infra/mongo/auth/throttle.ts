import { createHash } from 'node:crypto';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
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
import { MAX_JUDGED, QUIET_MS, waitAfter } from '#shared/auth/throttle.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type ThrottleRow, throttles } from './collections.ts';

/** `round` names the count that the try was counted in; see giveBackTry. */
export type Reservation = { kind: 'granted'; round: string } | { kind: 'refused'; retryAfterMs: number };

/** A try that was counted this long ago is judged by now, or never will be (ms). */
const JUDGED_WITHIN_MS = MINUTE;

/** The `_id` of an e-mail's row (normalized e-mail in): what people type as their address is not kept as they typed it. */
export function throttleKey(email: string): string {
  return createHash('sha256').update('examhall throttle:').update(email).digest('base64url');
}

/**
 * Counts a try before it is judged, or refuses it: while a wait lasts, where MAX_JUDGED tries were counted since the last success, and
 * where the address has failed too often and the account has a failure of its own (`addressIsOver`). Counting first is what bounds the
 * guesses that come at once. A refused try changes nothing, so nobody is kept out by knocking. `now` is MongoDB's time and
 * only tells how long to wait and dates the first try; whether is judged by `$$NOW`.
 */
export async function reserveTry(
  mongo: Mongo,
  key: string,
  address: { addressIsOver: boolean | Promise<boolean>; now: number },
): Promise<Reservation> {
  const { now } = address;
  // A success takes the row away, so most tries are the first: one command, and no failure that an address could add to.
  const round = newStamp();
  if (await insertRow(mongo, key, { round, tries: 1, lastTryAt: new Date(now) })) return { kind: 'granted', round };
  const addressIsOver = await address.addressIsOver;
  const isQuiet = { $gte: [{ $subtract: [NOW_MS, msOf('$lastTryAt')] }, QUIET_MS] };
  const sinceQuiet = (field: string, anew: unknown) => ({ $cond: [isQuiet, anew, field] });
  const failures = sinceQuiet('$failures', 0);
  const tries = sinceQuiet('$tries', 0);
  const reserve = guardedUpdate(
    [
      { $or: [isQuiet, { $lte: [msOf('$blockedUntil'), NOW_MS] }] },
      { $lt: [tries, MAX_JUDGED] },
      ...(addressIsOver ? [{ $eq: [failures, 0] }] : []),
    ],
    {
      round: sinceQuiet('$round', literal(newStamp())),
      tries: { $add: [tries, 1] },
      failures,
      blockedUntil: sinceQuiet('$blockedUntil', null),
      lastTryAt: '$$NOW',
    },
  );
  const row = await writeRow(mongo, key, reserve);
  if (wasAccepted(reserve, row)) return { kind: 'granted', round: row.round };
  return { kind: 'refused', retryAfterMs: Math.max(SECOND, waitOf(row, addressIsOver, now)) };
}

/** Ms until a refused try may be made again, as far as the row tells; none where the wait has just ended. */
function waitOf(row: ThrottleRow, addressIsOver: boolean, now: number): number {
  const blockedMs = (row.blockedUntil?.getTime() ?? 0) - now;
  if (blockedMs > 0) return blockedMs;
  const sinceLastMs = now - row.lastTryAt.getTime();
  // Counted and not yet judged: one right password among them and the count begins anew.
  if (row.tries >= MAX_JUDGED && row.failures < MAX_JUDGED && sinceLastMs < JUDGED_WITHIN_MS) return SECOND;
  if (row.tries >= MAX_JUDGED) return QUIET_MS - sinceLastMs;
  // The window of an address is as long as the longest wait.
  return addressIsOver ? waitAfter(MAX_JUDGED) : 0;
}

/** Of so many failures, the wait (ms): the rule as a table, so that the update need not know it a second time. */
const WAITS = Array.from({ length: MAX_JUDGED + 1 }, (_, failures) => waitAfter(failures));

/** The reserved try was wrong. It counts although a right one cleared the row meanwhile: it was judged after that. */
export async function recordFailure(mongo: Mongo, key: string): Promise<void> {
  const failures = { $add: ['$failures', 1] };
  const waitMs = { $arrayElemAt: [literal(WAITS), { $min: [failures, MAX_JUDGED] }] };
  await writeRow(
    mongo,
    key,
    guardedUpdate([], {
      failures,
      tries: { $max: ['$tries', failures] },
      blockedUntil: { $cond: [{ $gt: [waitMs, 0] }, nowPlus(waitMs), null] },
      lastTryAt: '$$NOW',
    }),
  );
}

/**
 * The reserved try was never judged (no time for another hash): it is nobody's guess. Only in the `round` in which it was
 * counted, or it would be taken off one that holds no such try and that would then judge one too many.
 */
export async function giveBackTry(mongo: Mongo, key: string, round: string): Promise<void> {
  const isCounted = [{ $eq: ['$round', literal(round)] }, { $gt: ['$tries', '$failures'] }];
  const { pipeline } = guardedUpdate(isCounted, { tries: { $subtract: ['$tries', 1] } });
  await throttles(mongo).updateOne({ _id: key }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/**
 * The reserved try was right: the failures are forgiven and its owner need not wait any more. Tries that are being judged meanwhile
 * stay counted; if they were forgotten, a hundred in flight and a hundred new ones would be judged in a row.
 */
export async function recordSuccess(mongo: Mongo, key: string): Promise<void> {
  // Nearly always ours is the only try: without the row the next one is a first try again, and costs one command.
  const gone = await throttles(mongo).deleteOne({ _id: key, tries: { $lte: 1 } }, { maxTimeMS: QUERY_LIMIT_MS });
  if (gone.deletedCount === 1) return;
  const inFlight = { $max: [0, { $subtract: [{ $subtract: ['$tries', '$failures'] }, 1] }] };
  const { pipeline } = guardedUpdate([], { tries: inFlight, failures: literal(0), blockedUntil: null });
  await throttles(mongo).updateOne({ _id: key }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Each more one means that somebody has cleared the row between our insert and our update. */
const ROUNDS = 50;

/**
 * Not an upsert: of those who upsert one row at once, some may be told of a duplicate key and would have to write again. An insert that
 * loses the race has changed nothing, and the update that follows counts each try once.
 */
async function writeRow(mongo: Mongo, key: string, update: GuardedUpdate): Promise<ThrottleRow> {
  for (let round = 0; round < ROUNDS; round++) {
    const row = await throttles(mongo).findOneAndUpdate({ _id: key }, update.pipeline, {
      returnDocument: 'after',
      maxTimeMS: QUERY_LIMIT_MS,
    });
    if (row !== null) return row;
    // A row without a try, quiet since 1970: whoever writes it next begins the count.
    await insertRow(mongo, key, { round: newStamp(), tries: 0, lastTryAt: new Date(0) });
  }
  throw new Error('a throttle row was cleared again and again under our hands');
}

/** False: there is a row already, and it stays as it is. */
async function insertRow(
  mongo: Mongo,
  key: string,
  begun: Pick<ThrottleRow, 'round' | 'tries' | 'lastTryAt'>,
): Promise<boolean> {
  try {
    const row = { _id: key, ...begun, failures: 0, blockedUntil: null };
    await throttles(mongo).insertOne(row, { maxTimeMS: QUERY_LIMIT_MS });
    return true;
  } catch (error) {
    if (isDuplicateKey(error)) return false;
    throw error;
  }
}
