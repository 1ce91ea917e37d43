import t from 'tap';
import type { Call } from '#api/route.ts';
import { openSigner } from '#infra/jwt/signer.ts';
import { accounts, knownPairs } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import type { RegisterRequest } from '#shared/generated/auth.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { register } from './account.ts';
import { openLoginEvidence } from './login-evidence.ts';

const mongo = await openTestMongo(t);
const hasher = openHasher({ passwordCost: 4, tokenCost: 4, concurrency: 2 });

function registerOn(mongo: Mongo, email: string) {
  const secret = { secret: 'x'.repeat(32), previousSecrets: [], issuer: 'examhall' };
  return register(
    {
      mongo,
      hasher,
      now: Date.now,
      settings: testConfig().auth,
      isCommonPassword: () => false,
      signer: openSigner({ ...secret, now: Date.now }),
      strangerTurns: {
        look: async () => ({ spacingMs: 0, waitMs: 0 }),
        take: async () => 0,
        failed: async () => undefined,
        succeeded: async () => undefined,
        close: async () => undefined,
      },
      addressOf: ({ peer }) => peer,
      evidence: openLoginEvidence({ mongo, now: Date.now, hash: openKeyedHash('x') }),
    },
    {
      requestId: 'r',
      params: {},
      query: {},
      headers: {},
      peer: '203.0.113.7',
      identity: {},
      body: { email, password: PASSWORD, fullName: 'Nguyễn Văn An' },
      signal: AbortSignal.timeout(60_000),
      stop: AbortSignal.timeout(60_000),
    } satisfies Call<RegisterRequest>,
  );
}

t.test('a registration makes the account and its address a known pair', async (t) => {
  t.match(await registerOn(mongo, newEmail()), { status: 201 });
  t.equal(await knownPairs(mongo).countDocuments({}), 1);
});

t.test('a registration that is committed is answered although the known pair cannot be stored', async (t) => {
  const email = newEmail();
  const broken = faultyMongo(mongo, { method: 'updateOne', how: 'refused', times: 1 });
  t.match(await registerOn(broken.mongo, email), { status: 201, data: { user: { email } } });
  t.equal(broken.left(), 0);
  t.equal(await accounts(mongo).countDocuments({ email }), 1);
});
