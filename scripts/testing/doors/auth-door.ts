import { openAuthCounts } from '#api/auth/counts.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { openLoginEvidence } from '#api/auth/login-evidence.ts';
import { openLoginGate } from '#api/auth/mount.ts';
import type { Call } from '#api/route.ts';
import { openSigner } from '#infra/jwt/signer.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { openPairLookup } from '#infra/mongo/auth/known-pairs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { type Hasher, openHasher } from '#infra/passwords/hasher.ts';
import type { AddressTurns } from '#infra/redis/address-turns.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { callWith } from './in-process-door.ts';

/** A hasher whose costs are so low that tests do not wait for it. */
export const quickHasher = openHasher({ passwordCost: 4, tokenCost: 4, concurrency: 2 });

/** Turns of an address that is never slowed. */
const FREE_TURNS: AddressTurns = {
  look: async () => ({ spacingMs: 0, waitMs: 0 }),
  take: async () => 0,
  failed: async () => undefined,
  succeeded: async () => undefined,
};

/** Returns the dependencies of the auth front door, without a socket and without slowed addresses. */
export function authDeps(mongo: Mongo, changed: Partial<Hasher> = {}): AuthDeps {
  const secret = { secret: 'x'.repeat(32), previousSecrets: [], issuer: 'examhall' };
  return {
    mongo,
    hasher: { ...quickHasher, ...changed },
    now: Date.now,
    settings: testConfig().auth,
    commonPasswords: async () => () => false,
    signer: openSigner({ ...secret, now: Date.now }),
    gate: openLoginGate(1),
    isKnownPair: openPairLookup(mongo, Date.now),
    pause: async () => undefined,
    strangerTurns: FREE_TURNS,
    registrationTurns: FREE_TURNS,
    addressOf: ({ peer }) => peer,
    endStreams: () => undefined,
    counts: openAuthCounts(openMetrics({ process: false })),
    evidence: openLoginEvidence({ mongo, now: Date.now, hash: openKeyedHash('x') }),
  };
}

/** Returns a call with this body from one address. */
export function authCall<Body>(body: Body, identity: Call['identity'] = {}): Call<Body> {
  return callWith(body, { identity, peer: '203.0.113.7' });
}
