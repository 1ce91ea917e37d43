import type { Call } from '#api/route.ts';
import { giveBackTry, recordFailure, recordSuccess, reserveTry, throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { StoredPassword } from '#shared/auth/account.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { AuthDeps } from './deps.ts';

/** What is guessed: a password, and how to read the one that is stored; null where there is none. */
export interface Guess {
  email: string;
  password: string;
  stored: () => Promise<StoredPassword | null>;
}

/**
 * Judges a password under the throttle and does `then` for who knows it: the try is counted before it is judged, so that no crowd
 * of guesses at once is judged beyond the limit. Without a stored password the same work is done and the answer is no.
 */
export async function withPassword<Result>(
  deps: AuthDeps,
  call: Call,
  guess: Guess,
  then: () => Promise<Result>,
): Promise<Result | Rejection> {
  const key = throttleKey(guess.email);
  const address = deps.addressOf(call.peer, call.headers['x-forwarded-for']);
  const addressIsOver = deps.addressFailures.isOver(address);
  const reading = guess.stored();
  // Looked at once the try is counted; where it is refused nobody asks what became of the read.
  reading.catch(() => undefined);
  const reserved = await reserveTry(deps.mongo, key, { addressIsOver, now: deps.now() });
  if (reserved.kind === 'refused') {
    return { rejected: 'AUTH_THROTTLED', retryAfter: Math.max(1, reserved.retryAfterMs / SECOND) };
  }
  const isRight = await verify(deps, { key, round: reserved.round }, guess.password, reading);
  if (isRight) {
    const [result] = await Promise.all([then(), recordSuccess(deps.mongo, key)]);
    return result;
  }
  await Promise.all([recordFailure(deps.mongo, key), deps.addressFailures.record(address)]);
  return { rejected: 'AUTH_INVALID_CREDENTIALS' };
}

/** The same with nothing to do for who knows the password. Null = it is right. */
export async function checkPassword(deps: AuthDeps, call: Call, guess: Guess): Promise<Rejection | null> {
  return withPassword(deps, call, guess, async () => null);
}

/** A try that could not be judged, because too many wait for it or its account could not be read, is none. */
async function verify(
  deps: AuthDeps,
  reserved: { key: string; round: string },
  password: string,
  reading: Promise<StoredPassword | null>,
): Promise<boolean> {
  try {
    return await deps.hasher.verifyPassword(password, await reading);
  } catch (error) {
    await giveBackTry(deps.mongo, reserved.key, reserved.round);
    throw error;
  }
}
