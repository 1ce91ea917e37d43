import t from 'tap';
import type { Reply } from '#api/route.ts';
import { accounts, type SecurityEventType, securityEvents, throttles } from '#infra/mongo/auth/collections.ts';
import { openPairLookup } from '#infra/mongo/auth/known-pairs.ts';
import { setPassword, unlockAccount } from '#infra/mongo/auth/operator.ts';
import { newestSecurityEvents, openSession } from '#infra/mongo/auth/sessions.ts';
import { deviceKey, recordFailure, throttleKey } from '#infra/mongo/auth/throttle.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { openAddressTurns } from '#infra/redis/address-turns.ts';
import type { SessionEnvelope } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { DAY, HOUR, SECOND } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { authCall, authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { freshAccount, freshSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword, register } from './account.ts';
import { admit } from './admission.ts';
import { login } from './login.ts';
import { openLoginEvidence } from './login-evidence.ts';
import { refresh } from './sessions.ts';

const mongo = await openTestMongo(t);
const hash = openKeyedHash('a secret of the test');
const [SCHOOL, HOME] = ['203.0.113.7', '198.51.100.1'];
const BUDGET_MS = 5_000;

/** A front door with a clock of its own, without Redis. Its evidence counts what it sends to MongoDB. */
function door() {
  const clock = { now: Date.now() };
  const now = () => clock.now;
  const { strangers: strangerTurns, close } = openAddressTurns({
    redisUrl: 'redis://127.0.0.1:1',
    log: captureLog(),
    now,
  });
  t.teardown(close);
  const evidence = openLoginEvidence({ mongo, now, hash });
  const isKnownPair = openPairLookup(mongo, Date.now);
  const deps = { mongo, now: Date.now, isKnownPair, strangerTurns, evidence, hasher: { hasRoom: () => true } };
  return {
    clock,
    evidence,
    enter: (email: string, address: string) =>
      admit(deps, { email, address }, { turn: strangerTurns.look(address), device: null }),
    /** Fails a login attempt whose wait, if any, is over. Returns false if the address refused it. */
    async fail(email: string, address: string, accountId: string | null = null): Promise<boolean> {
      await throttles(mongo).updateOne({ _id: throttleKey(email) }, { $set: { blockedUntil: null } });
      const admission = await admit(deps, { email, address }, { turn: strangerTurns.look(address), device: null });
      if (admission.kind === 'admitted') await admission.failed(accountId);
      return admission.kind === 'admitted';
    },
  };
}

const eventsOf = (type: SecurityEventType) => securityEvents(mongo).find({ type }).sort({ at: 1 }).toArray();

t.beforeEach(async () => {
  await securityEvents(mongo).deleteMany({});
  await throttles(mongo).deleteMany({});
});

t.test('the failure that causes a wait of a minute is an event, once a day for each account', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const front = door();
  for (let n = 1; n <= 10; n++) await front.fail(account.email, SCHOOL, account._id);
  t.strictSame(await eventsOf('LOGIN_LOCKED'), [], 'short waits are no event');
  for (let n = 11; n <= 20; n++) await front.fail(account.email, SCHOOL, account._id);
  const metadata = { address: hash('address', SCHOOL), failures: 11, knownPair: 'no' };
  t.match(await newestSecurityEvents(mongo, account._id, 9), [{ type: 'LOGIN_LOCKED', sessionId: null, metadata }]);
  t.equal((await eventsOf('LOGIN_LOCKED')).length, 1);
  front.clock.now += DAY;
  await Promise.all([1, 2, 3].map(() => front.fail(account.email, HOME, account._id)));
  t.equal((await eventsOf('LOGIN_LOCKED')).length, 2, 'concurrent failures of the next day are one event');
  const stored = JSON.stringify(await eventsOf('LOGIN_LOCKED'));
  for (const plain of [SCHOOL, HOME, account.email, throttleKey(account.email)]) t.notMatch(stored, plain);
});

t.test('an unknown e-mail has the same event, without an account', async (t) => {
  const front = door();
  for (let n = 1; n <= 12; n++) await front.fail('nobody@school.vn', SCHOOL);
  t.match(await eventsOf('LOGIN_LOCKED'), [{ accountId: null, metadata: { failures: 11 } }]);
  t.equal((await eventsOf('LOGIN_LOCKED')).length, 1);
});

t.test('an e-mail that gets an account has an event of each, because shards do not share an id', async (t) => {
  const [{ evidence }, { account }] = [door(), await storeSignedIn(mongo)];
  const login = { key: throttleKey(account.email), address: SCHOOL, isKnown: false, failures: 11 };
  for (const accountId of [null, account._id, null, account._id]) await evidence.failed({ ...login, accountId });
  const events = await eventsOf('LOGIN_LOCKED');
  t.strictSame(new Set(events.map(({ accountId }) => accountId)), new Set([null, account._id]));
  t.equal(events.length, 2);
});

t.test('a known pair has an event of its own', async (t) => {
  const { account } = await storeSignedIn(mongo);
  const front = door();
  for (const isKnown of [true, false]) {
    const login = { key: `count ${isKnown}`, accountId: account._id, address: SCHOOL, isKnown, failures: 11 };
    for (let n = 0; n < 3; n++) await front.evidence.failed(login);
  }
  const events = await newestSecurityEvents(mongo, account._id, 9);
  t.strictSame(events.map(({ metadata }) => metadata.knownPair).sort(), ['no', 'yes']);
});

t.test('strangers of an address beyond its allowance are one event an hour, whatever number of requests', async (t) => {
  const [front, other] = [door(), door()];
  for (let n = 0; n <= 50; n++) t.equal(await front.fail(`spray-${n}@invented.example`, SCHOOL), true);
  t.strictSame(await eventsOf('ADDRESS_SLOWED'), []);
  await Promise.all(Array.from({ length: 20 }, (_, n) => front.enter(`flood-${n}@invented.example`, SCHOOL)));
  await other.evidence.slowed(SCHOOL, SECOND);
  const metadata = { address: hash('address', SCHOOL), spacingMs: SECOND };
  t.match(await eventsOf('ADDRESS_SLOWED'), [{ accountId: null, metadata }]);
  t.equal((await eventsOf('ADDRESS_SLOWED')).length, 1);
  t.notMatch(JSON.stringify(await eventsOf('ADDRESS_SLOWED')), SCHOOL);
  front.clock.now += HOUR;
  await front.enter('flood@invented.example', SCHOOL);
  t.equal((await eventsOf('ADDRESS_SLOWED')).length, 2);
});

t.test('a sign-in from a new address is an event of an account that has signed in before', async (t) => {
  const events = async (accountId: string) => newestSecurityEvents(mongo, accountId, 9);
  const open = async (account: ReturnType<typeof freshAccount>, strangerFrom: string | null) => {
    const { session, token } = freshSession(account);
    const opened = { session, token, passwordHash: account.password.hash, strangerFrom };
    t.match(await openSession(mongo, opened, BUDGET_MS), { kind: 'opened' });
    return session._id;
  };
  const imported = freshAccount();
  await accounts(mongo).insertOne({ ...imported, importedAt: new Date() });
  await open(imported, 'hash-1');
  t.strictSame(await events(imported._id), [], 'the first sign-in of an imported account is none');
  await open(imported, null);
  t.strictSame(await events(imported._id), [], 'nor is one of a known pair');
  const sessionId = await open(imported, 'hash-2');
  t.match(await events(imported._id), [{ type: 'NEW_ADDRESS', sessionId, metadata: { address: 'hash-2' } }]);
  const registered = freshAccount();
  await accounts(mongo).insertOne(registered);
  await open(registered, 'hash-1');
  t.match(await events(registered._id), [{ type: 'NEW_ADDRESS' }], 'registration signs in');
});

const ACT = { operator: 'binh', reason: 'a test', now: Date.now() };
const PASSWORD = 'sông hương núi ngự';
const deps = {
  ...authDeps(mongo),
  addressOf: ({ headers }: { headers: Record<string, string | undefined> }) => headers.from ?? SCHOOL,
};

interface SignedIn {
  data: SessionEnvelope;
  device: string;
}

/** Returns the data and the device token of a reply. @throws Error for a refusal */
function signedIn(reply: Reply | Rejection): SignedIn {
  if (isRejection(reply)) throw new Error(reply.rejected);
  return { data: reply.data as SessionEnvelope, device: reply.headers?.['x-device-token'] ?? '' };
}

async function registered() {
  const email = `${newId(Date.now())}@truong.example`;
  const body = { email, password: PASSWORD, fullName: 'Nguyễn Văn An' };
  return { email, ...signedIn(await register(deps, authCall(body))) };
}

/** Signs in from a network where the account is not known. */
function loginWith(device: string | undefined, email: string, password = PASSWORD, from = HOME) {
  return login(deps, { ...authCall({ email, password }), headers: { from, 'x-device-token': device } });
}

/** Fails so often at an account as a stranger that its owner has to wait for minutes on a new network. */
async function plant(email: string): Promise<void> {
  for (let n = 0; n < 10; n++) await recordFailure(mongo, throttleKey(email));
}

const THROTTLED = { rejected: 'AUTH_THROTTLED' };

// Before: strangers kept a chosen pupil out of every new network for up to 15 minutes.
t.test('a browser that signed in is let in at once from a new network, whatever strangers planted', async (t) => {
  const { email, device } = await registered();
  await plant(email);
  t.match(await loginWith(undefined, email), THROTTLED);
  const reply = await loginWith(device, email);
  t.match(reply, { status: 200 });
  t.match(await loginWith(signedIn(reply).device, email, PASSWORD, '192.0.2.1'), { status: 200 });
  t.match(
    await loginWith(undefined, email, PASSWORD, '192.0.2.9'),
    { status: 200 },
    'and its success clears the account',
  );
});

t.test('a registration, a login and a refresh issue a device token of their account', async (t) => {
  const { email, data, device } = await registered();
  const again = signedIn(await login(deps, authCall({ email, password: PASSWORD })));
  const refreshed = signedIn(await refresh(deps, authCall({ refreshToken: again.data.refreshToken })));
  const claims = [device, again.device, refreshed.device].map((token) => deps.signer.readDevice(token));
  for (const one of claims) t.match(one, { sub: data.user.id, type: 'device', epoch: '' });
  t.equal(claims[1]?.sid, claims[2]?.sid, 'a refresh needs no password, and begins no new count');
  t.not(claims[0]?.sid, claims[1]?.sid);
});

t.test('failures with a device token count for this browser alone, and are bounded', async (t) => {
  const { email, device } = await registered();
  for (let n = 0; n < 5; n++)
    t.match(await loginWith(device, email, 'wrong'), { rejected: 'AUTH_INVALID_CREDENTIALS' });
  const claims = deps.signer.readDevice(device);
  t.match(await throttles(mongo).findOne({ _id: deviceKey(claims ?? { sid: '', epoch: '' }) }), { failures: 5 });
  t.equal(await throttles(mongo).findOne({ _id: throttleKey(email) }), null, 'the account has no failure');
  await plant(email);
  t.match(await loginWith(device, email), THROTTLED, 'a browser that has to wait is a stranger on a new network');
  t.match(await loginWith(device, email, PASSWORD, SCHOOL), { status: 200 }, 'and a known pair where it was one');
  const other = signedIn(await login(deps, authCall({ email, password: PASSWORD })));
  await plant(email);
  t.match(await loginWith(other.device, email), { status: 200 }, 'another browser of the account has no failure');
});

t.test('a token that is malformed, foreign, expired or of another account is treated as missing', async (t) => {
  const [{ email, device }, other] = [await registered(), await registered()];
  const claims = deps.signer.readDevice(device);
  if (claims === null) throw new Error('no claims');
  const { data } = other;
  await plant(email);
  for (const [name, token] of [
    ['empty', ''],
    ['malformed', 'a.b.c'],
    ['sent twice', `${device}, ${device}`],
    ['altered', `${device.slice(0, -1)}${device.endsWith('A') ? 'B' : 'A'}`],
    ['expired', deps.signer.device({ ...claims, exp: Math.floor(Date.now() / SECOND) })],
    ['of another account', other.device],
    ['an access token', data.accessToken],
    ['a refresh token', data.refreshToken],
  ] as const) {
    t.match(await loginWith(token, email), THROTTLED, name);
    t.match(await loginWith(token, other.email, PASSWORD, SCHOOL), { status: 200 }, `${name}, where none is needed`);
  }
});

t.test('a changed or set password, an unlock and an erasure end the device tokens', async (t) => {
  const ends: [string, (account: { id: string; email: string; sid: string }) => Promise<unknown>][] = [
    [
      'a changed password',
      ({ id, sid }) => {
        const identity = { session: { accountId: id, sessionId: sid } };
        return changePassword(deps, authCall({ currentPassword: PASSWORD, newPassword: `${PASSWORD} 2` }, identity));
      },
    ],
    [
      'a set password',
      async ({ id, email }) =>
        setPassword(mongo, { _id: id, email }, await quickHasher.hashPassword(`${PASSWORD} 2`), ACT),
    ],
    ['an unlock', ({ id, email }) => unlockAccount(mongo, { email, accountId: id }, ACT)],
  ];
  for (const [name, end] of ends) {
    const { email, data, device } = await registered();
    const { id } = data.user;
    const before = await accounts(mongo).findOne({ _id: id });
    await end({ id, email, sid: deps.signer.readDevice(device)?.sid ?? '' });
    const after = await accounts(mongo).findOne({ _id: id });
    const isChanged = after?.password.hash !== before?.password.hash;
    const password = isChanged ? `${PASSWORD} 2` : PASSWORD;
    await plant(email);
    t.match(await loginWith(device, email, password), THROTTLED, name);
    const next = signedIn(await loginWith(undefined, email, password, SCHOOL));
    await plant(email);
    t.match(await loginWith(next.device, email, password), { status: 200 }, `${name} ends no later one`);
  }

  const { email, data, device } = await registered();
  await erasePerson(mongo, data.user.id, ACT);
  t.match(await loginWith(device, email), { rejected: 'AUTH_INVALID_CREDENTIALS' });
  t.match(await register(deps, authCall({ email, password: PASSWORD, fullName: 'An' })), { status: 201 });
  await plant(email);
  t.match(await loginWith(device, email), THROTTLED, 'a later account of the same e-mail is another one');
});

t.test('a sign-in with a device token from a new address is a security event, and makes a known pair', async (t) => {
  const { email, data, device } = await registered();
  const events = async () => (await newestSecurityEvents(mongo, data.user.id, 9)).map(({ type }) => type);
  t.match(await loginWith(device, email, PASSWORD, SCHOOL), { status: 200 });
  t.strictSame(await events(), []);
  t.match(await loginWith(device, email), { status: 200 });
  t.strictSame(await events(), ['NEW_ADDRESS']);
  await plant(email);
  t.match(await loginWith(undefined, email), { status: 200 });
  t.strictSame(await events(), ['NEW_ADDRESS']);
});
