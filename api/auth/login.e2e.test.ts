import t from 'tap';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { authClient, claimsIn, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { retryOn503, tally } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { throttlesBy } from '#testing/stored/stored.ts';

const cluster = await startCluster(t, { inside: true, doors: 3, workers: [], env: { TRUSTED_PROXIES: '127.0.0.0/8' } });
const client = await authClient(cluster);
const accounts = cluster.mongo.collection('accounts');
const { pass, hold } = throttlesBy(cluster);
/** Retry-After of a throttle that is held for an hour. */
const ABOUT_AN_HOUR = /^3[3-6]\d\d$/;

/** Each test logs in from its own address, so that the failures of one test do not count in another. */
let lastHost = 0;
function from(host?: number) {
  if (host === undefined) lastHost += 1;
  return { 'x-forwarded-for': `spoofed, 198.51.100.${host ?? lastHost}` };
}

async function registered(): Promise<string> {
  const email = newEmail();
  const { status } = await client.register({ email });
  if (status !== 201) throw new Error(`register: ${status}`);
  return email;
}

/** Client of a door of its own, whose counters begin at 0. */
const fresh = await authClient(cluster, 3);

t.test('login accepts the e-mail in any case and the password in either Unicode form', async (t) => {
  const email = await registered();
  for (const [written, password] of [
    [email, PASSWORD],
    [` ${email.toUpperCase()} `, PASSWORD.normalize('NFD')],
  ] as const) {
    t.match(await client.login(written, password), {
      status: 200,
      json: { success: true, message: 'Logged in', data: { user: { email }, tokenType: 'Bearer' } },
    });
  }
  const sessions = await cluster.mongo.collection('auth_sessions').countDocuments();
  t.ok(sessions >= 3, 'each login is a session of its own');
});

t.test('unknown e-mail, wrong password and deleted account get identical replies', async (t) => {
  const [email, deleted] = [await registered(), await registered()];
  await accounts.updateOne({ email: deleted }, { $set: { status: 'DELETED' } });
  const replies = [
    await client.login(newEmail(), PASSWORD, from()),
    await client.login(email, 'wrong', from()),
    await client.login(email, '', from()),
    await client.login(email, `${PASSWORD}\u0000`, from()),
    await client.login(deleted, PASSWORD, from()),
    await client.login('not an address', PASSWORD, from()),
    await client.login(email, '😀'.repeat(1_024), from()),
    await client.login(email, `${PASSWORD}${'\u0301'.repeat(31)}`, from()),
  ];
  const bytes = new Set(replies.map(({ status, text, json }) => `${status} ${text.replace(json.requestId, '')}`));
  t.equal(bytes.size, 1, [...bytes].join('\n'));
  t.match(replies[0], { status: 401, json: { code: 'AUTH_INVALID_CREDENTIALS' } });
});

t.test('only the right password reveals that an account is suspended', async (t) => {
  const email = await registered();
  await accounts.updateOne({ email }, { $set: { status: 'SUSPENDED' } });
  t.match(await client.login(email, PASSWORD, from()), { status: 403, json: { code: 'AUTH_ACCOUNT_DISABLED' } });
  t.match(await client.login(email, 'wrong', from()), { status: 401, json: { code: 'AUTH_INVALID_CREDENTIALS' } });
});

t.test('login accepts an imported password hash and replaces it', async (t) => {
  const email = await registered();
  // $2a$, cost 5, of the plain password, as other systems store it.
  const hash = '$2a$05$icl4v.16t7K/wmfKsURSMeg8wOUB20wmbb6QXrrJcdG.bYwS1liqu';
  await accounts.updateOne({ email }, { $set: { password: { scheme: 'bcrypt', hash } } });
  t.match(await client.login(email, 'wrong', from()), { status: 401 });
  const atOnce = await Promise.all(
    Array.from({ length: 6 }, () => retryOn503(() => client.login(email, 'password', from()))),
  );
  t.same(
    tally(atOnce.map(({ status }) => status)),
    { 200: 6 },
    'one login replaces the hash, the others verify the new one',
  );
  t.match(await accounts.findOne({ email }), { password: { scheme: 'bcrypt-sha256', hash: /^\$2b\$04\$/ } });
  t.match(await client.login(email, 'password', from()), { status: 200 });
});

t.test(
  'a sign-in from an address that is new to the account is a security event, which holds no address',
  async (t) => {
    const email = await registered();
    const account = await accounts.findOne({ email });
    const events = () =>
      cluster.mongo
        .collection('auth_security_events')
        .find({ accountId: String(account?._id) })
        .toArray();
    t.equal((await client.login(email, PASSWORD)).status, 200);
    t.strictSame(await events(), [], 'the address of the registration is known');
    const elsewhere = from();
    for (let n = 0; n < 2; n++) t.equal((await client.login(email, PASSWORD, elsewhere)).status, 200);
    const found = await events();
    t.match(found, [{ type: 'NEW_ADDRESS', metadata: { address: /^[\w-]{16}$/ } }]);
    t.equal(found.length, 1, 'the second sign-in from there is one of a known pair');
    t.notMatch(JSON.stringify(found), '198.51.100');
  },
);

t.test('the sixth login attempt is throttled for any e-mail, known or not, even with the right password', async (t) => {
  for (const email of [await registered(), newEmail()]) {
    const address = from();
    for (let n = 1; n <= 5; n++) t.equal((await client.login(email, 'wrong', address)).status, 401, `try ${n}`);
    t.equal(await hold(email), 1_000, 'the wait is one second');
    for (const password of ['wrong', PASSWORD]) {
      t.match(await client.login(email, password, from()), {
        status: 429,
        json: { code: 'AUTH_THROTTLED' },
        headers: { 'retry-after': ABOUT_AN_HOUR },
      });
    }
    await pass(email, HOUR + 1_000);
    t.equal((await client.login(email, 'wrong', address)).status, 401, 'one try after the wait');
    t.equal(await hold(email), 2_000, 'the next wait is longer');
    t.match(await client.login(email, 'wrong', address), { status: 429, headers: { 'retry-after': ABOUT_AN_HOUR } });
  }
});

t.test('a successful login or 24 hours without attempts clears the throttle', async (t) => {
  const email = await registered();
  for (let n = 1; n <= 5; n++) await client.login(email, 'wrong', from());
  await pass(email, 1_000);
  t.equal((await client.login(email, PASSWORD, from())).status, 200);
  for (let n = 1; n <= 5; n++) t.equal((await client.login(email, 'wrong', from())).status, 401, `anew, try ${n}`);
  await hold(email);
  t.equal((await client.login(email, PASSWORD, from())).status, 429);
  await pass(email, 25 * HOUR);
  for (let n = 1; n <= 5; n++) t.equal((await client.login(email, 'wrong', from())).status, 401);
});

t.test(
  'concurrent right passwords do not throttle each other; concurrent wrong ones get a hundred checks',
  async (t) => {
    const email = await registered();
    const right = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        retryOn503(() =>
          client.call('POST', '/v1/auth/login', {
            body: { email, password: PASSWORD },
            headers: from(),
            door: 1 + (n % 2),
          }),
        ),
      ),
    );
    t.same(tally(right.map(({ status }) => status)), { 200: 20 });

    const judged: number[] = [];
    // The machine's speed decides how many guesses of a round are checked before the first failures count.
    for (let round = 0; judged.at(-1) !== 0; round++) {
      const guesses = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          client.call('POST', '/v1/auth/login', {
            body: { email, password: `guess ${round}.${n}` },
            headers: from((lastHost % 200) + 1),
            door: 1 + (n % 2),
          }),
        ),
      );
      judged.push(guesses.filter(({ status }) => status === 401).length);
      await pass(email, 900_000);
    }
    t.equal(
      judged.reduce((sum, some) => sum + some, 0),
      100,
      `judged: ${judged.join(', ')}`,
    );
    const last = await client.login(email, PASSWORD, from());
    t.equal(last.status, 429);
    t.ok(Number(last.headers['retry-after']) > 3_600, 'then only a quiet day or an operator helps');
  },
);

t.test(
  'beyond fifty failed accounts an address slows strangers and never an account that signed in there',
  async (t) => {
    const school = from(250);
    const [pupil, other] = [await registered(), await registered()];
    t.equal((await client.login(pupil, PASSWORD, school)).status, 200);
    t.equal((await client.login(pupil, 'planted', from(251))).status, 401);
    const spray = () => client.login(newEmail(), 'wrong', school);
    let refused = await spray();
    // Fifty and one more for the pupil; the slots of the slowed lane depend on the machine's speed.
    for (let tries = 0; refused.status === 401 && tries < 400; tries++) refused = await spray();
    t.match(refused, { status: 429, json: { code: 'AUTH_THROTTLED' } });
    t.match(refused.headers['retry-after'], /^([1-9]|10)$/);
    t.match((await client.login(pupil, 'slip', school)).status, /^4(01|29)$/, 'a slip has the reply of a stranger');
    t.equal((await client.login(pupil, PASSWORD, school)).status, 200);
    t.equal((await client.login(other, PASSWORD, from(252))).status, 200, 'other addresses are not slowed');
  },
);
const NAMES = /^examhall_(logins|refreshes|registrations)_total\{outcome="(\w+)"\} (\d+)$/gm;

/** Returns the counters of the auth service as a text for each label, such as `logins succeeded 1`. */
async function counts(): Promise<string[]> {
  const { text } = await fresh.call('GET', '/metrics');
  return [...text.matchAll(NAMES)].map(([, name, outcome, value]) => `${name} ${outcome} ${value}`);
}
/** Returns the counters that are not 0. */
const counted = async () => (await counts()).filter((line) => !line.endsWith(' 0')).sort();

t.test('every outcome is counted from 0 on', async (t) => {
  const all = await counts();
  t.equal(all.length, 16);
  t.ok(all.every((line) => line.endsWith(' 0')));

  const email = newEmail();
  const { data } = await fresh.register({ email });
  t.equal((await fresh.register({ email })).status, 409);
  t.equal((await fresh.register({ email: newEmail(), password: 'password' })).status, 400);
  t.equal((await fresh.login(email, PASSWORD)).status, 200);
  for (let n = 0; n < 5; n++) t.equal((await fresh.login('nobody@school.vn', 'wrong')).status, 401);
  t.equal((await fresh.login('nobody@school.vn', 'wrong')).status, 429);
  await cluster.mongo.collection('accounts').updateOne({ email }, { $set: { status: 'SUSPENDED' } });
  t.equal((await fresh.login(email, PASSWORD)).status, 403);
  t.equal((await fresh.refresh(data.refreshToken)).status, 403);
  await cluster.mongo.collection('accounts').updateOne({ email }, { $set: { status: 'ACTIVE' } });

  t.equal((await fresh.refresh(data.refreshToken)).status, 200);
  const used = { _id: claimsIn(data.refreshToken).jti as never };
  const useAt = (at: number) =>
    cluster.mongo.collection('auth_tokens').updateOne(used, { $set: { consumedAt: new Date(at) } });
  await useAt(Date.now() + MINUTE);
  t.equal((await fresh.refresh(data.refreshToken)).status, 401);
  await useAt(Date.now() - MINUTE);
  for (let n = 0; n < 2; n++) t.equal((await fresh.refresh(data.refreshToken)).status, 401);
  t.strictSame(await counted(), [
    'logins disabled 1',
    'logins succeeded 1',
    'logins throttled_account 1',
    'logins wrong_password 5',
    'refreshes disabled 1',
    'refreshes invalid 1',
    'refreshes repeated 1',
    'refreshes reuse 1',
    'refreshes succeeded 1',
    'registrations refused 1',
    'registrations succeeded 1',
    'registrations taken 1',
  ]);
});
