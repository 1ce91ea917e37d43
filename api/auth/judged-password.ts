import type { StoredPassword } from '../../shared/auth/account.ts';
import {
  clearThrottle,
  giveBackTry,
  recordFailure,
  reserveTry,
  throttleKey,
} from '../../shared/infra/mongo/auth/throttle.ts';
import { SECOND } from '../../shared/kernel/clock.ts';
import type { Rejection } from '../../shared/kernel/errors.ts';
import type { Call } from '../route.ts';
import type { AuthDeps } from './deps.ts';

/**
 * Judges a password under the throttle: the try is counted before it is judged, so that no crowd of guesses at once is judged
 * beyond the limit. Without a stored password the same work is done and the answer is no. Null = it is right.
 */
export async function judgePassword(
  deps: AuthDeps,
  call: Call,
  guess: { email: string; password: string; stored: () => Promise<StoredPassword | null> },
): Promise<Rejection | null> {
  const key = throttleKey(guess.email);
  const address = deps.addressOf(call.peer, call.headers['x-forwarded-for']);
  const addressIsOver = await deps.addressFailures.isOver(address);
  const reserved = await reserveTry(deps.mongo, key, { addressIsOver, now: deps.now() });
  if (!reserved.granted) return { rejected: 'AUTH_THROTTLED', retryAfter: Math.max(1, reserved.retryAfterMs / SECOND) };
  const isRight = await verify(deps, { key, round: reserved.round }, guess);
  if (isRight) {
    await clearThrottle(deps.mongo, key);
    return null;
  }
  await Promise.all([recordFailure(deps.mongo, key), deps.addressFailures.record(address)]);
  return { rejected: 'AUTH_INVALID_CREDENTIALS' };
}

/** A try that could not be judged, because too many wait for it, is none. */
async function verify(
  deps: AuthDeps,
  reserved: { key: string; round: string },
  guess: { password: string; stored: () => Promise<StoredPassword | null> },
): Promise<boolean> {
  try {
    return await deps.hasher.verifyPassword(guess.password, await guess.stored());
  } catch (error) {
    await giveBackTry(deps.mongo, reserved.key, reserved.round);
    throw error;
  }
}
