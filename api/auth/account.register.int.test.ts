import t from 'tap';
import { accounts, knownPairs } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { RegisterRequest } from '#shared/generated/auth.ts';
import { newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { authCall, authDeps } from '#testing/doors/auth-door.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { register } from './account.ts';

const mongo = await openTestMongo(t);

function registerOn(mongo: Mongo, email: string) {
  const body: RegisterRequest = { email, password: PASSWORD, fullName: 'Nguyễn Văn An' };
  return register(authDeps(mongo), authCall(body));
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
