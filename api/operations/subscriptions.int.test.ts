import t from 'tap';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { findSubscription, SUBSCRIPTIONS, subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { MAX_SUBSCRIPTIONS, signingSecrets } from '#shared/operations/subscription.ts';
import { ask, openTestDoor } from '#testing/doors/test-door.ts';
import { storeSubscription } from '#testing/stored/stored-events.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate } from '#testing/until.ts';
import { subscriptionRoutes } from './subscriptions.ts';

const SECRET = 'ops-token-of-this-test';
const OPS = `Authorization: Bearer ${SECRET}`;
const mongo = await openTestMongo(t);
const logged: object[] = [];
const deps = {
  mongo,
  now: Date.now,
  log: { info: (fields: object) => void logged.push(fields) },
  opsToken: [SECRET],
  rules: { production: true, allowsPrivate: false },
};
const routes = subscriptionRoutes(deps);
const { port } = await openTestDoor(t, { routes, schemas: 'product' });

const call = (method: string, path = '', body?: object, headers: readonly string[] = [OPS]) =>
  ask(
    t,
    port,
    method,
    `/v1/ops/subscriptions${path}`,
    [...headers, ...(body === undefined ? [] : ['Content-Type: application/json'])],
    body === undefined ? undefined : JSON.stringify(body),
  );
const ORDER = { url: 'https://school.example/hook?key=canary', types: ['attempt.graded', 'attempt.graded'] };

t.test(
  'a subscription is created, read, changed, tested and deleted; only the first reply has its secret',
  async (t) => {
    const { status, json } = await call('POST', '', ORDER);
    t.equal(status, 201);
    const { subscription, secret } = json.data;
    t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    t.match(subscription, { url: ORDER.url, types: ['attempt.graded'], state: 'ACTIVE', organizationId: null });
    const path = `/${subscription.id}`;
    t.strictSame((await call('GET', path)).json.data, subscription);
    t.strictSame((await call('GET')).json.data, { subscriptions: [subscription] });

    const rotated = await call('PATCH', path, { rotateSecret: true, description: 'the data team' });
    t.match(rotated, { status: 200, json: { data: { subscription: { description: 'the data team' } } } });
    const stored = await findSubscription(mongo, subscription.id);
    if (stored === null) throw new Error('the subscription is not stored');
    t.strictSame(signingSecrets(stored, Date.now()), [rotated.json.data.secret, secret]);
    t.strictSame(signingSecrets(stored, Date.now() + 25 * HOUR), [rotated.json.data.secret], 'a day later');

    const tested = await call('POST', `${path}/test`, {});
    t.equal(tested.status, 201);
    const { eventId } = tested.json.data;
    const message = await mailboxOf(mongo, 'upkeep:webhooks').findOne({ 'body.eventId': eventId });
    t.match(message, { maxAttempts: 1, subject: subscription.id, body: { type: 'subscription.test' } });
    t.match(await call('PATCH', path, { state: 'DISABLED' }), { json: { data: { secret: null } } });
    t.match(await call('POST', `${path}/test`, {}), { status: 409, json: { code: 'SUBSCRIPTION_DISABLED' } });
    t.match(await call('DELETE', path), { status: 200, json: { data: { id: subscription.id } } });
    for (const [method, body] of [['GET'], ['PATCH', { state: 'ACTIVE' }], ['DELETE']] as const)
      t.match(await call(method, path, body), { status: 404, json: { code: 'SUBSCRIPTION_NOT_FOUND' } }, method);

    const rows = await operatorAudit(mongo).find({}).sort({ _id: 1 }).toArray();
    const acts = ['create', 'change', 'change', 'delete'].map((name) => `subscription.${name}`);
    t.strictSame(
      rows.map(({ action }) => action),
      acts,
    );
    t.notMatch(JSON.stringify([rows, logged]), /whsec_|canary/, 'neither audit nor log has a secret');
  },
);

t.test('two rotations at once return secrets that sign, and the secret before them still signs', async (t) => {
  const { _id, secret } = await storeSubscription(mongo, 'https://school.example/hook');
  const both = gate();
  let reads = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOne' || collection !== SUBSCRIPTIONS || reads >= 2) return undefined;
    return async (...args) => {
      const found = await method(...args);
      reads += 1;
      if (reads === 2) both.open();
      await both.opened;
      return found;
    };
  });
  const door = await openTestDoor(t, {
    routes: subscriptionRoutes({ ...deps, mongo: { ...mongo, db } }),
    schemas: 'product',
  });
  const rotate = async () => {
    const body = JSON.stringify({ rotateSecret: true });
    const reply = await ask(
      t,
      door.port,
      'PATCH',
      `/v1/ops/subscriptions/${_id}`,
      [OPS, 'Content-Type: application/json'],
      body,
    );
    t.equal(reply.status, 200);
    return reply.json.data.secret;
  };
  const returned = await Promise.all([rotate(), rotate()]);
  const stored = await findSubscription(mongo, _id);
  if (stored === null) throw new Error('the subscription is not stored');
  t.strictSame(signingSecrets(stored, Date.now()), [returned[0], secret]);
  t.equal(returned[1], returned[0]);
  await subscriptions(mongo).deleteMany({});
});

t.test('null in a change counts as absent', async (t) => {
  const row = await storeSubscription(mongo, 'https://school.example/hook', {
    organizationId: 'org-1',
    description: 'd',
  });
  const body = { url: null, types: null, organizationId: null, description: null, state: null, rotateSecret: null };
  const { status, json } = await call('PATCH', `/${row._id}`, body);
  t.match(
    { status, ...json.data },
    { status: 200, secret: null, subscription: { organizationId: 'org-1', description: 'd' } },
  );
  t.match(await findSubscription(mongo, row._id), { url: row.url, state: 'ACTIVE', secret: row.secret });
  await subscriptions(mongo).deleteMany({});
});

t.test('an address must be https, public and at the port 443 or 8443', async (t) => {
  for (const url of [
    'http://school.example/hook',
    'https://127.0.0.1/hook',
    'https://[::1]/hook',
    'https://10.0.0.8/hook',
    'https://169.254.169.254/latest',
    'https://user:password@school.example/hook',
    'ftp://school.example/x',
    'https://school.example:22/hook',
    'https://school.example:80/hook',
    'not a url',
  ]) {
    const reply = await call('POST', '', { ...ORDER, url });
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/url' }] } };
    t.match(reply, refused, url);
    t.match(await call('PATCH', '/any-id', { url }), refused, `${url} in a change`);
  }
});

t.test('only the holder of OPS_TOKEN and an ADMIN pass, and there are at most fifty', async (t) => {
  t.match(await call('POST', '', ORDER, []), { status: 401 });
  t.match(await call('GET', '', undefined, ['X-User-Id: an', 'X-User-Role: TEACHER']), { status: 403 });
  t.match(await call('GET', '', undefined, ['X-User-Id: an', 'X-User-Role: ADMIN']), { status: 200 });
  for (let n = 0; n < MAX_SUBSCRIPTIONS; n++) await storeSubscription(mongo, 'https://school.example/hook');
  t.match(await call('POST', '', ORDER), { status: 409, json: { code: 'SUBSCRIPTION_LIMIT_REACHED' } });
});
