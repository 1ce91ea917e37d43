import t from 'tap';
import { accounts, knownPairs } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import type { RegisterRequest } from '#shared/generated/auth.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { authCall, authDeps } from '#testing/doors/auth-door.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
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

const [SCHOOL, HOME] = ['203.0.113.7', '198.51.100.1'];

/** A front door whose turns have a clock that a test moves. */
function slowingDoor() {
  const clock = { now: Date.now() };
  const turns = openAddressTurns({ redisUrl: 'redis://127.0.0.1:1', log: captureLog(), now: () => clock.now });
  t.teardown(turns.close);
  const deps = { ...authDeps(mongo), registrationTurns: turns.registrations };
  async function registerFrom(peer: string, more: Partial<RegisterRequest> = {}): Promise<number | string> {
    const body: RegisterRequest = { email: newEmail(), password: PASSWORD, fullName: 'Nguyễn Văn An', ...more };
    const reply = await register({ ...deps, addressOf: () => peer }, authCall(body));
    return isRejection(reply) ? `${reply.rejected} ${Math.ceil(reply.retryAfter ?? 0)}` : reply.status;
  }
  return { clock, turns, registerFrom };
}

// Before: 98 accounts in 12 s from one address, and no limit.
t.test('beyond sixty registrations in an hour an address has one a second, and no other address waits', async (t) => {
  const { clock, registerFrom } = slowingDoor();
  for (let n = 0; n < 60; n++) t.equal(await registerFrom(SCHOOL), 201);
  t.equal(await registerFrom(SCHOOL), 201, 'the first turn is free');
  t.equal(await registerFrom(SCHOOL), 'AUTH_THROTTLED 1');
  t.equal(await registerFrom(HOME), 201);
  clock.now += SECOND;
  t.equal(await registerFrom(SCHOOL), 201);
  t.equal(await registerFrom(SCHOOL), 'AUTH_THROTTLED 1');
  clock.now += HOUR;
  for (let n = 0; n < 3; n++) t.equal(await registerFrom(SCHOOL), 201);
});

// Before: twelve e-mails a second could be probed without end.
t.test(
  'an address that probes which e-mails or phones are taken is slowed, and learns nothing when refused',
  async (t) => {
    const { registerFrom, turns, clock } = slowingDoor();
    const { account } = await storeSignedIn(mongo, { email: newEmail(), phone: '+84912345678', hasPhone: true });
    const [email, phone] = [account.email, '0912345678'];
    for (let n = 0; n < 5; n++) t.equal(await registerFrom(SCHOOL, { email }), 'AUTH_EMAIL_TAKEN 0');
    for (let n = 0; n < 5; n++) t.equal(await registerFrom(SCHOOL, { phone }), 'AUTH_PHONE_TAKEN 0');
    for (let n = 0; n < 54; n++) await turns.registrations.failed(SCHOOL, `another e-mail ${n}`);
    t.equal(await registerFrom(SCHOOL, { email }), 'AUTH_EMAIL_TAKEN 0', 'a repeat of one e-mail counts once');
    for (const more of [{ email }, { phone }, {}]) t.equal(await registerFrom(SCHOOL, more), 'AUTH_THROTTLED 1');
    clock.now += SECOND;
    t.equal(await registerFrom(SCHOOL), 201);
  },
);

t.test('a registration whose line is full costs Redis nothing', async (t) => {
  const deps = authDeps(mongo, { hasRoom: () => false });
  let looks = 0;
  const look = async () => {
    looks += 1;
    return { spacingMs: 0, waitMs: 0 };
  };
  const body: RegisterRequest = { email: newEmail(), password: PASSWORD, fullName: 'Nguyễn Văn An' };
  const full = { ...deps, registrationTurns: { ...deps.registrationTurns, look } };
  await t.rejects(register(full, authCall(body)), HasherBusy);
  t.equal(looks, 0);
});
