import type { Call } from '#api/route.ts';
import { deviceKey } from '#infra/mongo/auth/throttle.ts';
import type { HashLane } from '#infra/passwords/hash-queue.ts';
import type { Turn } from '#infra/redis/address-turns.ts';
import type { StoredPassword } from '#shared/auth/account.ts';
import { DEVICE_HEADER, type DeviceClaims, type DeviceOwner, isDeviceOf } from '#shared/auth/device.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type Admitted, admit, hasRoomForStranger, refusesStrangers, strangersWait } from './admission.ts';
import type { AuthDeps } from './deps.ts';

/** A login attempt for the account that `find` reads; `find` returns null if the e-mail is unknown. */
export interface LoginAttempt<Found extends PasswordHolder> {
  email: string;
  password: string;
  find: () => Promise<Found | null>;
  /** True if the caller has proven nothing yet, so that a reply must not show which accounts exist. */
  isAnonymous: boolean;
  /** Is called if a throttle refuses the login attempt. */
  throttled?: (by: 'account' | 'address') => void;
}

/** The part of an account that the check needs. */
interface PasswordHolder extends DeviceOwner {
  password: StoredPassword;
}

/**
 * Checks a password under the login throttle and, if it is right, calls `then` with the account that `find` returned and the
 * admission. The login attempt is counted before the check, so that concurrent guesses cannot exceed the limit. An unknown e-mail costs the same
 * work as a wrong password and gets the same rejection.
 *
 * While an address is slowed, only known pairs have their passwords verified, and a 401 would show that an account exists. A wrong
 * password then gets the reply of a stranger, at the time of one.
 */
export async function withPassword<Found extends PasswordHolder, Result>(
  deps: AuthDeps,
  call: Call,
  attempt: LoginAttempt<Found>,
  then: (found: Found, admission: Admitted) => Promise<Result>,
): Promise<Result | Rejection> {
  const address = deps.addressOf(call);
  const { admission, early } = await deps.gate.run({ kind: 'login', address, account: null }, async () => {
    // If the line of strangers is full, they are refused whatever the turn is. A flood then costs Redis nothing.
    const hasRoom = () => hasRoomForStranger(deps.hasher, { email: attempt.email, address });
    const turn = hasRoom() ? deps.strangerTurns.look(address) : null;
    const claims = deps.signer.readDevice(call.headers[DEVICE_HEADER] ?? '');
    const early = claims === null ? readEarly(attempt, turn, hasRoom) : attempt.find();
    // Awaited once the login attempt is counted. If the throttle refuses the attempt, an error of this read is ignored.
    early.catch(() => undefined);
    const device = claims === null ? null : early.then((found) => keyOfDevice(found, claims));
    return { early, admission: await admit(deps, { email: attempt.email, address }, { turn, device }) };
  });
  const hiddenMs = async () => (attempt.isAnonymous && admission.isKnown ? strangersWait(deps, address) : 0);
  if (admission.kind === 'refused') {
    attempt.throttled?.(admission.by);
    const waitMs = await hiddenMs();
    if (attempt.isAnonymous && (waitMs > 0 || admission.by === 'address')) await deps.pause(deps.hasher.lastCheckMs());
    return throttled(waitMs || admission.retryAfterMs);
  }
  const kind = admission.isKnown ? 'known' : 'stranger';
  const lane: HashLane = { kind, address, account: attempt.email };
  const reading = early.then((read) => (read === 'unread' ? attempt.find() : read));
  const found = await verify(deps, { admission, lane }, attempt.password, reading);
  if (found === null) {
    const waitMs = await hiddenMs();
    await admission.failed((await reading)?._id ?? null);
    return waitMs > 0 ? throttled(waitMs) : { rejected: 'AUTH_INVALID_CREDENTIALS' };
  }
  const [result] = await Promise.all([then(found, admission), admission.succeeded()]);
  // A suspended account has the right password but has not signed in.
  if (!isRejection(result)) await admission.signedIn();
  return result;
}

/** Returns the rejection of a request that has to wait. */
export function throttled(waitMs: number): Rejection {
  return { rejected: 'AUTH_THROTTLED', retryAfter: Math.max(1, waitMs / SECOND) };
}

/** Returns the key of a device's count, or null if its token is not one of the account. */
function keyOfDevice(found: PasswordHolder | null | 'unread', claims: DeviceClaims): string | null {
  return found !== null && found !== 'unread' && isDeviceOf(found, claims) ? deviceKey(claims) : null;
}

/**
 * Reads the account while its login attempt is counted, which saves a round trip. Returns `unread` if strangers from the address would be
 * refused: most callers are then strangers, and a flood must not cost MongoDB a read for each of them.
 */
async function readEarly<Found extends PasswordHolder>(
  { find }: LoginAttempt<Found>,
  looking: Promise<Turn> | null,
  hasRoom: () => boolean,
): Promise<Found | null | 'unread'> {
  return refusesStrangers(await looking, hasRoom) ? 'unread' : find();
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
  { admission, lane }: { admission: Admitted; lane: HashLane },
  password: string,
  reading: Promise<Found | null>,
): Promise<Found | null> {
  try {
    const found = await reading;
    const isRight = await deps.hasher.verifyPassword(password, found?.password ?? null, lane);
    return isRight ? found : null;
  } catch (error) {
    await admission.refund();
    throw error;
  }
}
