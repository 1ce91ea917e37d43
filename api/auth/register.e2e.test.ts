import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { hash } from 'bcrypt';
import t from 'tap';
import { authClient, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { retryOn503, tally } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';

const cluster = await startCluster(t, {
  inside: true,
  doors: 4,
  workers: [],
  env: { AUTH_PASSWORD_MIN_LENGTH: '10' },
  envOf: { web3: { AUTH_SELF_REGISTER_ROLES: '' }, web4: { AUTH_SELF_REGISTER_ROLES: 'TEACHER' } },
});
const client = await authClient(cluster);
const count = (collection: string, filter = {}) => cluster.mongo.collection(collection).countDocuments(filter);

const closed = await authClient(cluster, 3);
const CLOSED = { status: 403, json: { success: false, code: 'AUTH_REGISTRATION_CLOSED', requestId: String } };

t.test('a closed registration refuses every request before it reads the body', async (t) => {
  const call = (options: Parameters<typeof closed.call>[2]) => closed.call('POST', '/v1/auth/register', options);
  t.match(await closed.register(), CLOSED);
  t.match(await closed.register({ role: 'STUDENT' }), CLOSED);
  t.match(await closed.register({ email: 'nobody', fullName: 5, more: true }), CLOSED, 'a body that breaks the schema');
  t.match(await call({}), CLOSED, 'no body');
  t.match(await call({ body: 'x'.repeat(300_000) }), CLOSED, 'a body that is too large');
  t.match(await call({ headers: { 'content-type': 'text/plain' }, body: {} }), CLOSED, 'a body of another media type');
  t.equal(await count('accounts'), 0);
});

t.test('a closed registration stays in the OpenAPI document, and GET on its path answers 405', async (t) => {
  const { json } = await cluster.request('GET', '/openapi.json', { door: 3 });
  const refusals = JSON.stringify(json.paths['/v1/auth/register'].post.responses['403']);
  t.match(refusals, 'AUTH_REGISTRATION_CLOSED');
  t.match(await closed.call('GET', '/v1/auth/register'), { status: 405, json: { code: 'METHOD_NOT_ALLOWED' } });
});

t.test('while registration is closed an operator can import accounts, which can log in', async (t) => {
  const email = newEmail();
  const file = path.join(t.testdir(), `pupils-${randomUUID()}.jsonl`);
  const line = { email, fullName: 'Trần Bình', role: 'TEACHER', passwordHash: await hash(PASSWORD, 4) };
  await writeFile(file, `${JSON.stringify(line)}\n`);
  const { MONGODB_URL: url = '', MONGODB_DATABASE: database = '' } = cluster.env;
  const env = { AUTH_SELF_REGISTER_ROLES: '', AUTH_BCRYPT_COST: '4' };
  const args = ['account', 'import', file, '--reason', 'a test of the school', '--yes'];
  const imported = await callExamhall({ url, database }, args, { env });
  t.equal(imported.code, 0, imported.said);
  t.match(await closed.login(email), { status: 200, data: { user: { email, role: 'TEACHER' } } });
});

t.test('only a role named in the configuration may register', async (t) => {
  t.match(await closed.register({ role: 'TEACHER' }, {}, 4), {
    status: 201,
    data: { user: { role: 'TEACHER' } },
  });
  for (const role of ['STUDENT', undefined]) {
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/role' }] } };
    t.match(await closed.register({ role }, {}, 4), refused, role ?? 'the default role');
  }
});

t.test('a registration returns the new account, signed in', async (t) => {
  const email = newEmail();
  const reply = await client.register({ email: `  ${email.toUpperCase()} `, phone: '0901 234 567' });
  t.match(reply, {
    status: 201,
    json: {
      success: true,
      message: 'Registered',
      data: {
        user: {
          email,
          fullName: 'Nguyễn Văn An',
          role: 'STUDENT',
          status: 'ACTIVE',
          defaultOrganizationId: 'local',
          memberships: [{ organizationId: 'local', organizationName: String, role: 'STUDENT', status: 'ACTIVE' }],
          accountCode: /^ACC-[0-9A-HJKMNP-TV-Z]{8}$/,
        },
        tokenType: 'Bearer',
        expiresIn: 900,
      },
    },
  });
  const [header, claims] = reply.data.accessToken.split('.').slice(0, 2).map(decoded);
  t.match(header, { alg: 'HS256', typ: 'at+jwt', kid: String });
  const { user } = reply.data;
  t.match(claims, {
    sub: user.id,
    type: 'access',
    role: 'STUDENT',
    accountCode: user.accountCode,
    fullName: user.fullName,
    email,
    defaultOrganizationId: 'local',
    iss: 'examhall',
    sid: String,
    jti: String,
  });
  t.equal(claims.exp - claims.iat, 900);
  const [refreshHeader, refreshClaims] = reply.data.refreshToken.split('.').slice(0, 2).map(decoded);
  t.match(refreshHeader, { alg: 'HS256', typ: 'rt+jwt' });
  t.match(refreshClaims, { sub: user.id, type: 'refresh', jti: String, sid: claims.sid });
  t.equal(refreshClaims.exp - refreshClaims.iat, 30 * 86_400);
  t.match(await client.as(reply.data.accessToken).me(), { status: 200, data: { user } });

  const account = await cluster.mongo.collection('accounts').findOne({ email });
  t.match(account, { phone: '+84901234567', password: { scheme: 'bcrypt-sha256', hash: /^\$2b\$04\$/ } });
  const token = await cluster.mongo.collection('auth_tokens').findOne({ accountId: account?._id });
  t.match(token, { hash: /^\$2b\$/, consumedAt: null });
  const everything = JSON.stringify([account, token, await cluster.mongo.collection('auth_sessions').find().toArray()]);
  for (const secret of [PASSWORD, reply.data.refreshToken, reply.data.accessToken]) {
    t.notOk(everything.includes(secret), 'nothing raw is stored');
    t.notOk(cluster.output().includes(secret), 'no raw secret is logged');
  }
});

t.test('a registration accepts only the roles open to self-registration', async (t) => {
  for (const role of ['STUDENT', 'PARENT']) {
    t.match(await client.register({ role }), { status: 201, data: { user: { role, memberships: [{ role }] } } });
  }
  for (const role of ['TEACHER', 'ADMIN', 'student', 'ROOT']) {
    t.match(await client.register({ role }), {
      status: 400,
      json: { code: 'VALIDATION_FAILED', details: [{ path: '/role' }] },
    });
  }
});

t.test('an invalid registration reports every fault at once and writes nothing', async (t) => {
  const before = await count('accounts');
  t.match(await client.register({ email: 'nobody', fullName: '  ', phone: '12' }), {
    status: 400,
    json: {
      code: 'VALIDATION_FAILED',
      details: [{ path: '/email' }, { path: '/fullName' }, { path: '/phone' }],
    },
  });
  const misshapen = await client.register({ email: 'nobody', password: 5, phone: '12', role: 'ADMIN', extra: 1 });
  t.match(misshapen, { status: 400, json: { code: 'VALIDATION_FAILED' } });
  t.same(
    misshapen.json.details.map(({ path }: { path: string }) => path).sort(),
    ['/email', '/extra', '/password', '/phone', '/role'],
    'faults of the schema and of the field rules',
  );
  const weak = await client.register({ email: 'an@truong.example', password: 'An@Truong.Example' });
  t.match(weak, { status: 400, json: { code: 'AUTH_WEAK_PASSWORD', details: [{ path: '/password' }] } });
  for (const [password, reasons] of [
    ['12345678', 3],
    ['20-10-2008', 1],
    ['matkhau123', 1],
    ['password', 2],
    ['', 1],
    ['x'.repeat(129), 2],
    [`${'x'.repeat(200)}\u0000`, 2],
    ['nguyễn văn an', 1],
  ] as const) {
    const { status, json } = await client.register({ password });
    t.match({ status, json }, { status: 400, json: { code: 'AUTH_WEAK_PASSWORD' } }, password.slice(0, 20));
    t.equal(json.details.length, reasons, `${password.slice(0, 20)}: one detail per reason`);
  }
  t.equal(await count('accounts'), before);
});

t.test('concurrent registrations of one e-mail or one phone create one account', async (t) => {
  const email = newEmail();
  const spellings = [email, email.toUpperCase(), ` ${email}`, `${email}\t`];
  const replies = await Promise.all(
    Array.from({ length: 24 }, (_, n) =>
      retryOn503(() =>
        client.call('POST', '/v1/auth/register', {
          body: { email: spellings[n % 4], password: PASSWORD, fullName: `Học sinh ${n}` },
          door: 1 + (n % 2),
        }),
      ),
    ),
  );
  t.same(tally(replies.map(({ status, json }) => json.code ?? status)), { 201: 1, AUTH_EMAIL_TAKEN: 23 });
  const { _id: accountId } = (await cluster.mongo.collection('accounts').findOne({ email })) ?? {};
  t.equal(await count('accounts', { email }), 1);
  t.equal(await count('auth_sessions', { accountId }), 1);
  t.equal(await count('auth_tokens', { accountId }), 1);

  const phones = ['0912345678', '+84912345678', ' 091 234 5678 ', '84 912 345 678'.replace('84', '+84')];
  const byPhone = await Promise.all(
    Array.from({ length: 16 }, (_, n) => retryOn503(() => client.register({ phone: phones[n % 4] }))),
  );
  t.same(tally(byPhone.map(({ status, json }) => json.code ?? status)), { 201: 1, AUTH_PHONE_TAKEN: 15 });
  const none = await Promise.all(
    ['', '  ', null, undefined].map((phone) => retryOn503(() => client.register({ phone }))),
  );
  t.same(tally(none.map(({ status }) => status)), { 201: 4 }, 'no phone is not the same phone');
  t.equal(await count('accounts'), await count('auth_sessions'), 'nothing is half there');
});

// biome-ignore lint/suspicious/noExplicitAny: claims are matched by the test, field by field
function decoded(segment: string): any {
  return JSON.parse(Buffer.from(segment, 'base64url').toString());
}
