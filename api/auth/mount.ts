import type { Mount } from '#api/service.ts';
import { openSigner } from '#infra/jwt/signer.ts';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import { openAddressFailures } from '#infra/redis/address-failures.ts';
import { ACCESS_SECONDS, REFRESH_SECONDS } from '#shared/auth/session.ts';
import { openCallerAddress } from './caller-address.ts';
import { authRoutes } from './routes.ts';

/** Of libuv's four threads one is left for names, files and the hashes of refresh tokens. */
const HASHES_AT_ONCE = 3;
/** A login behind as many as these waits some five seconds at the default cost; the next one is told to come again. */
const WAITING_HASHES = 60;

export const mountAuth: Mount = ({ config: { auth }, mongo, now, redis, atEnd }) => {
  const addressFailures = openAddressFailures(redis);
  atEnd(addressFailures.close);
  return authRoutes({
    mongo,
    now,
    settings: auth,
    addressFailures,
    addressOf: openCallerAddress(auth.trustedProxies),
    hasher: openHasher({ ...auth.bcrypt, concurrency: HASHES_AT_ONCE, maxWaiting: WAITING_HASHES }),
    signer: openSigner({ ...auth.jwt, accessSeconds: ACCESS_SECONDS, refreshSeconds: REFRESH_SECONDS, now }),
    isCommonPassword: commonPasswords(),
  });
};
