import type { Mount } from '#api/service.ts';
import { openSigner } from '#infra/jwt/signer.ts';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import { openStrangerTurns } from '#infra/redis/stranger-turns.ts';
import { openCountedAddress } from './caller-address.ts';
import { authRoutes } from './routes.ts';

/** Concurrent password hashes. One of libuv's four threads stays free for DNS, files and refresh token hashes. */
const HASHES_AT_ONCE = 3;
/** Queue limit: at the default cost the last queued login waits about five seconds. Further logins get 503. */
const WAITING_HASHES = 60;

export const mountAuth: Mount = ({ config: { auth }, mongo, now, redis, atEnd }) => {
  const strangerTurns = openStrangerTurns({ ...redis, now });
  atEnd(strangerTurns.close);
  return authRoutes({
    mongo,
    now,
    settings: auth,
    strangerTurns,
    addressOf: openCountedAddress(auth.trustedProxies),
    hasher: openHasher({ ...auth.bcrypt, concurrency: HASHES_AT_ONCE, maxWaiting: WAITING_HASHES }),
    signer: openSigner({ ...auth.jwt, now }),
    isCommonPassword: commonPasswords(),
  });
};
