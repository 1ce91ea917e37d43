import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import jwt from 'jsonwebtoken';
import t from 'tap';
import { authClient, claimsIn } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const SECRET = 'the secret that signs from today on; 36+';
const OLD_SECRET = 'the secret that signed until today; 36+';

// web2 plays a process that was started before the secret changed.
const cluster = await startCluster(t, {
  inside: true,
  doors: 2,
  workers: [],
  env: { AUTH_JWT_SECRET: SECRET, AUTH_JWT_PREVIOUS_SECRETS: OLD_SECRET },
  envOf: { web2: { AUTH_JWT_SECRET: OLD_SECRET, AUTH_JWT_PREVIOUS_SECRETS: '' } },
});
const client = await authClient(cluster);
const signedIn = async (door: number) => (await client.register({}, {}, door)).data;

/** Returns the JavaScript lines for verifying an access token that the documents show, each variant once. */
async function verifiersIn(pages: readonly string[]): Promise<string[]> {
  const texts = await Promise.all(pages.map((page) => readFile(path.join(ROOT, page), 'utf8')));
  const shown = texts.flatMap((page) => [...page.matchAll(/```js\n(import jwt [^`]*)```/g)]);
  return [...new Set(shown.map(([, code = '']) => code.trim()))];
}

/** Runs the documented lines in a process of their own. Resolves with the claims, or with the error that they throw. */
async function verify(code: string, token: string, secret: string) {
  const script = `const token = process.env.TOKEN;\n${code}\nconsole.log(JSON.stringify(payload));`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, TOKEN: token, AUTH_JWT_SECRET: secret },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, error] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return out === '' ? { error } : { claims: JSON.parse(out) };
}

t.test('the documented three lines verify an access token of a running door and refuse other tokens', async (t) => {
  const [code = '', ...others] = await verifiersIn(['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })]);
  t.strictSame(others, [], 'every document shows the same lines');
  t.match(code.split('\n'), { length: 5, 0: /^import/, 1: '' }, 'beside the import');
  const { user, accessToken, refreshToken } = await signedIn(1);
  t.match(await verify(code, accessToken, SECRET), {
    claims: { sub: user.id, role: 'STUDENT', email: user.email, defaultOrganizationId: 'local', iss: 'examhall' },
  });
  t.match(await verify(code, accessToken, OLD_SECRET), { error: /invalid signature/ });
  t.match(
    await verify(code, refreshToken, SECRET),
    { error: /invalid signature/ },
    'a refresh token is not an access token',
  );
  t.match(await verify(code, `${accessToken.slice(0, -2)}AA`, SECRET), { error: /invalid signature/ });
  const { kid } = headerOf(accessToken);
  const other = (typ: string, change: object) =>
    jwt.sign({ ...claimsIn(accessToken), ...change }, SECRET, { header: { alg: 'HS256', typ, kid } });
  t.match(
    await verify(code, other('at+jwt', {}), SECRET),
    { claims: { sub: user.id } },
    'the test signs as the door does',
  );
  t.match(await verify(code, other('JWT', {}), SECRET), { error: /not an access token/ });
  t.match(await verify(code, other('at+jwt', { type: 'refresh' }), SECRET), { error: /not an access token/ });
  t.match(await verify(code, other('at+jwt', { iss: 'else' }), SECRET), { error: /issuer invalid/ });
});

t.test('the signature of a token is a plain HMAC keyed with the bytes of the secret', async (t) => {
  const { accessToken, refreshToken } = await signedIn(1);
  const macOf = (token: string) => {
    const signed = token.slice(0, token.lastIndexOf('.'));
    return createHmac('sha256', Buffer.from(SECRET, 'utf8')).update(signed).digest('base64url');
  };
  t.equal(macOf(accessToken), accessToken.split('.')[2]);
  t.not(macOf(refreshToken), refreshToken.split('.')[2], 'only access tokens are signed with the bare secret');
});

t.test('access and refresh tokens of the previous secret are valid while it is configured', async (t) => {
  const [before, after] = [await signedIn(2), await signedIn(1)];
  t.not(headerOf(before.accessToken).kid, headerOf(after.accessToken).kid);
  const me = (token: string, door: number) =>
    client.call('GET', '/v1/auth/me', { headers: { authorization: `Bearer ${token}` }, door });
  t.match(await me(before.accessToken, 1), { status: 200 });
  const refreshed = await client.refresh(before.refreshToken, 1);
  t.match(refreshed, { status: 200 });
  t.equal(headerOf(refreshed.data.accessToken).kid, headerOf(after.accessToken).kid, 'the current secret signs');
  t.equal(headerOf(refreshed.data.refreshToken).kid, headerOf(after.refreshToken).kid);

  const INVALID = { status: 401, json: { code: 'AUTH_INVALID_TOKEN' } };
  t.match(await me(after.accessToken, 2), INVALID, 'a process that does not know the secret');
  t.match(await client.refresh(after.refreshToken, 2), INVALID);
  t.match(
    await client.refresh(after.refreshToken, 1),
    { status: 200 },
    'the refusal by the other process did not consume the token',
  );
});

// biome-ignore lint/suspicious/noExplicitAny: headers are matched by the test, field by field
function headerOf(token: string): any {
  return JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
}
