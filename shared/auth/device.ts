import { DAY, SECOND } from '#shared/kernel/time.ts';
import type { Account } from './account.ts';
import type { TokenTimes } from './session.ts';

/** Header that carries a device token, in requests and in replies. */
export const DEVICE_HEADER = 'x-device-token';

/**
 * Lifetime of a device token: more than a school year, after which a pupil comes back to the same
 * browser.
 */
const DEVICE_MS = 400 * DAY;

/**
 * Claims of a device token. It proves an earlier sign-in to the account with its password
 * in this browser, and makes its next login a known pair from every address. It opens nothing.
 */
export interface DeviceClaims {
  /** The account's id. */
  sub: string;
  type: 'device';
  /**
   * The session of that sign-in. Its login attempts have one count, so a refresh, which needs no
   * password, issues no token with a new count.
   */
  sid: string;
  /** The account's `deviceEpoch` when the token was issued. */
  epoch: string;
}

/** The part of an account that decides about its device tokens. */
export type DeviceOwner = Pick<Account, '_id' | 'deviceEpoch'>;

/** Returns the claims of the device token that a session of this account gets. `now`: Unix ms. */
export function deviceClaims(
  account: DeviceOwner,
  { sessionId, now }: { sessionId: string; now: number },
): DeviceClaims & TokenTimes {
  const iat = Math.floor(now / SECOND);
  return {
    sub: account._id,
    type: 'device',
    sid: sessionId,
    epoch: epochOf(account),
    iat,
    exp: iat + DEVICE_MS / SECOND,
  };
}

/** Returns true if a token with these claims is one of the account and was not ended. */
export function isDeviceOf(account: DeviceOwner, { sub, epoch }: DeviceClaims): boolean {
  return sub === account._id && epoch === epochOf(account);
}

function epochOf({ deviceEpoch = '' }: DeviceOwner): string {
  return deviceEpoch;
}
