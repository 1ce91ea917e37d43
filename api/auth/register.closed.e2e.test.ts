import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { hash } from 'bcrypt';
import t from 'tap';
import { authClient, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';

const cluster = await startCluster(t, {
  inside: true,
  doors: 2,
  workers: [],
  env: { AUTH_SELF_REGISTER_ROLES: '' },
  envOf: { web2: { AUTH_SELF_REGISTER_ROLES: 'TEACHER' } },
});
const client = await authClient(cluster);
const accounts = cluster.mongo.collection('accounts');
const CLOSED = { status: 403, json: { success: false, code: 'AUTH_REGISTRATION_CLOSED', requestId: String } };

t.test('a closed registration refuses every request before it reads the body', async (t) => {
  const call = (options: Parameters<typeof client.call>[2]) => client.call('POST', '/v1/auth/register', options);
  t.match(await client.register(), CLOSED);
  t.match(await client.register({ role: 'STUDENT' }), CLOSED);
  t.match(await client.register({ email: 'nobody', fullName: 5, more: true }), CLOSED, 'a body that breaks the schema');
  t.match(await call({}), CLOSED, 'no body');
  t.match(await call({ body: 'x'.repeat(300_000) }), CLOSED, 'a body that is too large');
  t.match(await call({ headers: { 'content-type': 'text/plain' }, body: {} }), CLOSED, 'a body of another media type');
  t.equal(await accounts.countDocuments(), 0);
});

t.test('a closed registration stays in the OpenAPI document, and GET on its path answers 405', async (t) => {
  const { json } = await cluster.request('GET', '/openapi.json');
  const refusals = JSON.stringify(json.paths['/v1/auth/register'].post.responses['403']);
  t.match(refusals, 'AUTH_REGISTRATION_CLOSED');
  t.match(await client.call('GET', '/v1/auth/register'), { status: 405, json: { code: 'METHOD_NOT_ALLOWED' } });
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
  t.match(await client.login(email), { status: 200, data: { user: { email, role: 'TEACHER' } } });
});

t.test('only a role named in the configuration may register', async (t) => {
  t.match(await client.register({ role: 'TEACHER' }, {}, 2), { status: 201, data: { user: { role: 'TEACHER' } } });
  for (const role of ['STUDENT', undefined]) {
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/role' }] } };
    t.match(await client.register({ role }, {}, 2), refused, role ?? 'the default role');
  }
});
