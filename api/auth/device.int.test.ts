import t from 'tap';
import type { Reply } from '#api/route.ts';
import { accounts, throttles } from '#infra/mongo/auth/collections.ts';
import { setPassword, unlockAccount } from '#infra/mongo/auth/operator.ts';
import { newestSecurityEvents } from '#infra/mongo/auth/sessions.ts';
import { deviceKey, recordFailure, throttleKey } from '#infra/mongo/auth/throttle.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import type { SessionEnvelope } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { authCall, authDeps, quickHasher } from '#testing/doors/auth-door.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { changePassword, register } from './account.ts';
import { login } from './login.ts';
import { refresh } from './sessions.ts';

const mongo = await openTestMongo(t);
const ACT = { operator: 'binh', reason: 'a test', now: Date.now() };
const PASSWORD = 'sông hương núi ngự';
const [SCHOOL, NEW_NETWORK] = ['203.0.113.7', '198.51.100.1'];
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
function loginWith(device: string | undefined, email: string, password = PASSWORD, from = NEW_NETWORK) {
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
