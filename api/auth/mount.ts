import { availableParallelism } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { openCountedAddress } from '#api/http/caller-address.ts';
import type { Mount } from '#api/service.ts';
import { openSigner } from '#infra/jwt/signer.ts';
import { openPairLookup } from '#infra/mongo/auth/known-pairs.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { fairQueue } from '#infra/passwords/fair-queue.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import { hashMetrics, openAuthCounts } from './counts.ts';
import type { AuthDeps } from './deps.ts';
import { openLoginEvidence } from './login-evidence.ts';
import { authRoutes } from './routes.ts';
import { refuseWhenBusy } from './when-busy.ts';

/**
 * Concurrent password hashes. One of libuv's four threads stays free for DNS, files and refresh
 * token hashes.
 */
const HASHES_AT_ONCE = 3;
/**
 * Those of the hashes that only known pairs may use. Strangers leave one processor to the other
 * requests: on two processors, two of their hashes at once would slow every save of an exam.
 */
const KEPT_HASHES = Math.max(1, HASHES_AT_ONCE - Math.max(1, availableParallelism() - 1));

/**
 * Returns the gate that admits login attempts, networks in turn, so that a flood from one waits for
 * itself. Three are looked up and counted at once; their look-ups share reads. More would only
 * arrive in bursts between the requests of the exams. The limit of the requests in flight also
 * limits those that wait.
 */
export function openLoginGate(concurrency = 3): AuthDeps['gate'] {
  const unlimited = Number.POSITIVE_INFINITY;
  return fairQueue({
    lines: { login: { total: unlimited, ofAddress: unlimited, ofAccount: unlimited } },
    mayStart: (_kind, { login }) => login < concurrency,
  });
}

export const mountAuth: Mount = ({ config: { auth }, log, metrics, mongo, now, redis, accountEnds, atEnd }) => {
  const turns = openAddressTurns({ ...redis, now });
  atEnd(turns.close);
  const hasher = openHasher({ ...auth.bcrypt, concurrency: HASHES_AT_ONCE, kept: KEPT_HASHES });
  hashMetrics(metrics, hasher);
  let common: ReturnType<typeof commonPasswords> | undefined;
  const routes = authRoutes({
    mongo,
    now,
    settings: auth,
    strangerTurns: turns.strangers,
    registrationTurns: turns.registrations,
    gate: openLoginGate(),
    isKnownPair: openPairLookup(mongo, now),
    pause,
    endStreams: (accountId) => accountEnds.notify([accountId]),
    counts: openAuthCounts(metrics),
    evidence: openLoginEvidence({ mongo, now, hash: openKeyedHash(auth.jwt.secret) }),
    addressOf: openCountedAddress(auth.trustedProxies),
    hasher,
    signer: openSigner({ ...auth.jwt, now }),
    commonPasswords: () => (common ??= commonPasswords()),
  });
  return refuseWhenBusy(routes, log, () => performance.now());
};
