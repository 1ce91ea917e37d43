import type { Call } from '#api/route.ts';
import {
  recordFailure,
  recordSuccess,
  refundLoginAttempt,
  reserveLoginAttempt,
  throttleKey,
} from '#infra/mongo/auth/throttle.ts';
import type { StoredPassword } from '#shared/auth/account.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { AuthDeps } from './deps.ts';

/** A login attempt for the account that `find` reads; `find` returns null if the e-mail is unknown. */
export interface LoginAttempt<Found extends PasswordHolder> {
  email: string;
  password: string;
  find: () => Promise<Found | null>;
}

/** The part of an account that the check needs. */
interface PasswordHolder {
  password: StoredPassword;
}

/**
 * Checks a password under the login throttle and, if it is right, calls `then` with the account that `find` returned. The login
 * attempt is counted before the check, so that concurrent guesses cannot exceed the limit. An unknown e-mail costs the same
 * work as a wrong password and gets the same rejection.
 */
export async function withPassword<Found extends PasswordHolder, Result>(
  deps: AuthDeps,
  call: Call,
  attempt: LoginAttempt<Found>,
  then: (found: Found) => Promise<Result>,
): Promise<Result | Rejection> {
  const key = throttleKey(attempt.email);
  const address = deps.addressOf(call.peer, call.headers['x-forwarded-for']);
  const addressIsOver = deps.addressFailures.isOver(address);
  const reading = attempt.find();
  // Awaited once the login attempt is counted. If the throttle refuses the attempt, an error of this read is ignored.
  reading.catch(() => undefined);
  const reserved = await reserveLoginAttempt(deps.mongo, key, { addressIsOver, now: deps.now() });
  if (reserved.kind === 'refused') {
    return { rejected: 'AUTH_THROTTLED', retryAfter: Math.max(1, reserved.retryAfterMs / SECOND) };
  }
  const found = await verify(deps, { key, round: reserved.round }, attempt.password, reading);
  if (found !== null) {
    const [result] = await Promise.all([then(found), recordSuccess(deps.mongo, key)]);
    return result;
  }
  await Promise.all([recordFailure(deps.mongo, key), deps.addressFailures.record(address)]);
  return { rejected: 'AUTH_INVALID_CREDENTIALS' };
}

/** Checks a password like `withPassword`. Returns null if it is right, otherwise the rejection. */
export async function checkPassword(
  deps: AuthDeps,
  call: Call,
  attempt: LoginAttempt<PasswordHolder>,
): Promise<Rejection | null> {
  return withPassword(deps, call, attempt, async () => null);
}

/**
 * Returns the account if its password matches, or null. If the password could not be checked, because the hasher is busy or the
 * account could not be read, the counted login attempt is refunded and the error thrown.
 */
async function verify<Found extends PasswordHolder>(
  deps: AuthDeps,
  reserved: { key: string; round: string },
  password: string,
  reading: Promise<Found | null>,
): Promise<Found | null> {
  try {
    const found = await reading;
    const isRight = await deps.hasher.verifyPassword(password, found?.password ?? null);
    return isRight ? found : null;
  } catch (error) {
    await refundLoginAttempt(deps.mongo, reserved.key, reserved.round);
    throw error;
  }
}
