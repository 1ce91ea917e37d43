import t from 'tap';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { Account } from '#shared/auth/account.ts';
import { authClient, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import type { HttpReply } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  inside: true,
  workers: [],
  doors: 4,
  neighbours: false,
  envOf: {
    web2: {
      SERVICES: 'attempt',
      OPS_TOKEN: 'ops-token-of-the-next-month',
      OPS_TOKEN_PREVIOUS: 'ops-token-of-the-whole-test',
    },
    web3: { SERVICES: 'attempt', OPS_TOKEN: 'ops-token-of-the-next-month' },
    web4: { SERVICES: 'attempt', NODE_ENV: 'production', GATEWAY_TRUST: 'network', HOST: '127.0.0.1' },
  },
});
const auth = await authClient(cluster);
const accounts = cluster.mongo.collection<Account>('accounts');
const throttles = cluster.mongo.collection<{ _id: string; failures: number }>('auth_throttles');
const { ops } = cluster.tokens;

interface Sent {
  cookie?: string | undefined;
  door?: number;
  headers?: Record<string, string | undefined>;
}

const get = (path: string, { cookie, door = 1, headers }: Sent = {}) =>
  cluster.request('GET', path, { door, headers: { cookie, ...headers } });

/** Sends a form as the page of the same origin would; `headers` overrides its headers. */
function post(
  path: string,
  fields: Record<string, string>,
  { cookie, door = 1, headers }: Sent = {},
): Promise<HttpReply> {
  const { url } = cluster.door(door);
  return cluster.request('POST', path, {
    door,
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin: url, cookie, ...headers },
    body: new URLSearchParams(fields).toString(),
  });
}

const cookieIn = (reply: HttpReply) => reply.headers['set-cookie']?.split(';')[0];
const proofIn = (page: HttpReply) => /name="proof" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
const withToken = (token: string, door = 1) => post('/ops/sign-in', { way: 'token', token }, { door });
const withAccount = (email: string, password = PASSWORD) => post('/ops/sign-in', { way: 'account', email, password });

async function admin(): Promise<{ email: string; id: string }> {
  const email = newEmail();
  await auth.register({ email });
  const account = await accounts.findOneAndUpdate({ email }, { $set: { role: 'ADMIN' } });
  return { email, id: account?._id ?? '' };
}

t.test('without a session every screen leads to the sign-in, and then back', async (t) => {
  t.match(await get('/ops'), { status: 303, headers: { location: '/ops/sign-in' } });
  const refused = await get('/ops/overview?x=1');
  t.match(refused, { status: 303, headers: { location: '/ops/sign-in?next=%2Fops%2Foverview%3Fx%3D1' } });
  const page = await get(refused.headers.location ?? '');
  t.match(page.text, /name="next" value="\/ops\/overview\?x=1"/);
  for (const next of [
    'https://evil.example',
    '//evil.example',
    '/v1',
    '/ops/../v1',
    '/ops/%2e%2e/v1',
    '/ops\\evil',
    '/opsx',
  ]) {
    const reply = await post('/ops/sign-in', { way: 'token', token: ops, next });
    t.equal(reply.headers.location, '/ops/overview', next);
  }
});

t.test('a mistyped address has a page, and without a session it is answered as every screen is', async (t) => {
  const cookie = cookieIn(await withToken(ops));
  for (const path of ['/ops/overveiw', '/ops/dead-letters/nope', '/ops/a/b/c', '/ops/dead-letters/jobs/x/y']) {
    const page = await get(path, { cookie });
    t.match(page, { status: 404, headers: { 'content-type': /^text\/html/ }, text: /Page not found/ }, path);
    t.match(page.text, '<nav', 'the page leads to the screens');
    const next = new URLSearchParams({ next: path });
    t.match(await get(path), { status: 303, headers: { location: `/ops/sign-in?${next}` } }, path);
  }
});

t.test('a browser gets a page for every other address below /ops, and a program a JSON reply', async (t) => {
  const cookie = cookieIn(await withToken(ops));
  const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
  const odd = ['/ops/', '/ops/a/b/c/d/e/f', '/ops//overview', '/ops/%C3%A9', '/ops/a%20b', '/ops/x;y', '/ops/sign-out'];
  for (const path of odd) {
    const page = await get(path, { cookie, headers: { accept } });
    t.match(page, { status: 404, headers: { 'content-type': /^text\/html/ }, text: /Page not found/ }, path);
    const next = new URLSearchParams({ next: path });
    t.match(
      await get(path, { headers: { accept } }),
      { status: 303, headers: { location: `/ops/sign-in?${next}` } },
      path,
    );
    const json = await get(path, { cookie, headers: { accept: 'application/json' } });
    t.match(
      json,
      { status: path === '/ops/sign-out' ? 405 : 404, headers: { 'content-type': /^application\/json/ } },
      path,
    );
  }
  t.match(await get('/v1/no-such-route', { headers: { accept } }), { status: 404, json: { code: 'ROUTE_NOT_FOUND' } });
  t.match(await get('/opsx', { headers: { accept } }), { status: 404, json: { code: 'ROUTE_NOT_FOUND' } });
});

t.test('OPS_TOKEN opens a session that only its cookie carries', async (t) => {
  const reply = await withToken(ops);
  t.match(reply, { status: 303, headers: { location: '/ops/overview' } });
  t.match(
    reply.headers['set-cookie'],
    /^examhall_console=token\.[^;]+; Path=\/ops; HttpOnly; SameSite=Strict; Max-Age=28800$/,
  );
  t.notMatch(reply.headers['set-cookie'], ops);
  const page = await get('/ops/overview', { cookie: cookieIn(reply) });
  t.equal(page.status, 200);
  t.match(page.text, /OPS_TOKEN/);
  t.match(await get('/ops/sign-in', { cookie: cookieIn(reply) }), { status: 303 });
  t.match(await get('/ops/overview', { cookie: `${cookieIn(reply)}x` }), { status: 303 }, 'an altered cookie');
});

t.test('in production a browser accepts the cookies of the console over https alone', async (t) => {
  const door = 4;
  const signedIn = await withToken(ops, door);
  t.match(
    signedIn.headers['set-cookie'],
    /^__Secure-examhall_console=token\.[^;]+; Path=\/ops; HttpOnly; SameSite=Strict; Max-Age=28800; Secure$/,
  );
  const cookie = cookieIn(signedIn);
  t.equal((await get('/ops/overview', { cookie, door })).status, 200);
  const planted = cookie?.replace('__Secure-', '');
  t.equal(
    (await get('/ops/overview', { cookie: planted, door })).status,
    303,
    'a page of plain http could set this name',
  );
  const chosen = await get('/ops/language?to=vi', { door });
  t.match(
    chosen.headers['set-cookie'],
    /^__Secure-examhall_console_language=vi; Path=\/ops; SameSite=Lax; Max-Age=\d+; Secure$/,
  );
  const inVietnamese = await get('/ops/sign-in', { cookie: cookieIn(chosen), door });
  t.match(inVietnamese.text, /<html lang="vi">/);
  const page = await get('/ops/overview', { cookie, door });
  const signedOut = await post('/ops/sign-out', { proof: proofIn(page) }, { cookie, door });
  t.match(signedOut.headers['set-cookie'], /^__Secure-examhall_console=; .*Max-Age=0; Secure$/);
});

t.test('signing out ends a session of OPS_TOKEN at every front door, and no other session', async (t) => {
  const [cookie, other] = [cookieIn(await withToken(ops)), cookieIn(await withToken(ops))];
  const page = await get('/ops/overview', { cookie });
  const signedOut = await post('/ops/sign-out', { proof: proofIn(page) }, { cookie });
  t.match(signedOut, { status: 303, headers: { 'set-cookie': /^examhall_console=; .*Max-Age=0/ } });
  for (const door of [1, 2])
    t.equal((await get('/ops/overview', { cookie, door })).status, 303, 'a copy of the cookie is worthless');
  t.equal((await get('/ops/overview', { cookie: other })).status, 200);
  const stored = await cluster.mongo.collection('console_ends').find({}).toArray();
  t.notOk(JSON.stringify(stored).includes(proofIn(page)), 'the proof is stored nowhere');
  t.equal((await post('/ops/sign-out', { proof: proofIn(page) }, { cookie })).status, 303, 'a repeat changes nothing');
});

t.test('a session ends with the OPS_TOKEN that opened it', async (t) => {
  const cookie = cookieIn(await withToken(ops));
  t.equal((await get('/ops/overview', { cookie, door: 2 })).status, 200, 'the earlier token is still accepted');
  t.equal((await get('/ops/overview', { cookie, door: 3 })).status, 303, 'it is accepted no longer');
});

t.test('wrong tokens are counted by address', async (t) => {
  for (let i = 0; i < 10; i += 1) t.equal((await withToken('wrong', 3)).status, 401);
  const refused = await withToken('wrong', 3);
  t.match(refused, { status: 429, headers: { 'retry-after': /^\d+$/ } });
  t.notOk(refused.headers['set-cookie']);
  const right = await withToken('ops-token-of-the-next-month', 3);
  t.match(right, { status: 303 }, 'strangers behind the same address lock no operator out');
  const lines = await until('the line is written', () => {
    const found = cluster
      .output('web3')
      .split('\n')
      .filter((line) => line.includes('wrong token refused'));
    return found.length > 0 && found.map((line) => JSON.parse(line));
  });
  t.match(lines, [{ level: 40, kind: 'console', address: /^[\w-]{16}$/, wrong: 1, requestId: String }]);
  t.equal(lines.length, 1, 'once a minute');
});

t.test('a password of the sign-in has the limits of every other login', async (t) => {
  const email = newEmail();
  t.equal((await withAccount(email, `${PASSWORD}${'\u0301'.repeat(31)}`)).status, 401, 'a wrong password');
  t.equal((await withAccount(email, '😀'.repeat(1_024))).status, 401);
  const long = await withAccount(email, 'x'.repeat(1_025));
  t.match(long, { status: 400, text: /more than 1,024 characters/ });
  const counted = await throttles.findOne({ _id: throttleKey(email) });
  t.equal(counted?.failures, 2, 'the long one is not counted');
});

t.test('an ADMIN signs in with e-mail and password, as at every other login', async (t) => {
  const { email, id } = await admin();
  t.match(await withAccount(email, 'wrong password'), { status: 401 });
  const reply = await withAccount(email);
  t.match(reply, { status: 303, headers: { 'set-cookie': /^examhall_console=account\./ } });
  const cookie = cookieIn(reply);
  const page = await get('/ops/overview', { cookie });
  t.match(page.text, `ADMIN ${id}`);
  t.equal(
    (await get('/ops/overview', { cookie, door: 2 })).status,
    303,
    'a process without the auth service accepts no account',
  );

  const signedOut = await post('/ops/sign-out', { proof: proofIn(page) }, { cookie });
  t.match(signedOut, { status: 303, headers: { 'set-cookie': /^examhall_console=; .*Max-Age=0/ } });
  t.equal((await get('/ops/overview', { cookie })).status, 303, 'a copy of the cookie is worthless');
});

t.test('a student, a suspended and a former ADMIN get no session, and lose the one that they have', async (t) => {
  const student = newEmail();
  await auth.register({ email: student });
  t.match(await withAccount(student), { status: 403, headers: { 'set-cookie': undefined } });
  const sessions = await cluster.mongo.collection('auth_sessions').find({ endReason: 'LOGOUT' }).toArray();
  t.ok(sessions.length > 0, 'the session of the login is ended');

  for (const change of [{ status: 'SUSPENDED' }, { role: 'TEACHER' }, { status: 'DELETED' }] as const) {
    const { email } = await admin();
    const cookie = cookieIn(await withAccount(email));
    t.equal((await get('/ops/overview', { cookie })).status, 200);
    await accounts.updateOne({ email }, { $set: change });
    t.equal((await get('/ops/overview', { cookie })).status, 303, JSON.stringify(change));
    t.ok([401, 403].includes((await withAccount(email)).status), JSON.stringify(change));
  }
});

t.test('a form of another origin or without the proof of the session changes nothing', async (t) => {
  const { email } = await admin();
  const cookie = cookieIn(await withAccount(email));
  const proof = proofIn(await get('/ops/overview', { cookie }));
  const foreign = proofIn(await get('/ops/overview', { cookie: cookieIn(await withToken(ops)) }));
  const attacks: [string, Record<string, string>, Record<string, string | undefined>][] = [
    ['no proof', {}, {}],
    ['an empty proof', { proof: '' }, {}],
    ['the proof of another session', { proof: foreign }, {}],
    ['another origin', { proof }, { origin: 'https://evil.example' }],
    ['no origin', { proof }, { origin: undefined }],
    ['an opaque origin', { proof }, { origin: 'null' }],
    ['another site, as the browser reports', { proof }, { 'sec-fetch-site': 'cross-site' }],
    ['another subdomain', { proof }, { 'sec-fetch-site': 'same-site' }],
  ];
  for (const [what, fields, headers] of attacks) {
    const reply = await post('/ops/sign-out', fields, { cookie, headers });
    t.equal(reply.status, 403, what);
    t.match(reply.headers['content-type'], 'text/html', what);
  }
  t.equal(
    (await post('/ops/sign-in', { way: 'token', token: ops }, { headers: { origin: 'https://evil.example' } })).status,
    403,
  );
  t.equal((await get('/ops/overview', { cookie })).status, 200, 'still signed in');
});

t.test('forms are read at the console only, and only forms there', async (t) => {
  const json = { method: 'POST', body: { way: 'token', token: ops } };
  t.match(await cluster.request('POST', '/ops/sign-in', json), { status: 415 });
  const large = await post('/ops/sign-in', { way: 'token', token: 'x'.repeat(70_000) });
  t.equal(large.status, 413);
  t.match(await post('/v1/auth/login', { email: 'a', password: 'b' }), { status: 415 });
  const marked = await post('/ops/sign-out', { reason: `a${'\u0301'.repeat(31)}` });
  t.match(marked, { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/fields/0/value' }] } });
});

t.test('every page has the headers that keep foreign code out', async (t) => {
  const cookie = cookieIn(await withToken(ops));
  for (const path of ['/ops/sign-in', '/ops/overview']) {
    const { headers, text } = await get(path, path === '/ops/overview' ? { cookie } : {});
    t.equal(
      headers['content-security-policy'],
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    );
    t.match(headers, {
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
      'content-type': 'text/html; charset=utf-8',
      'x-request-id': /./,
    });
    t.notMatch(
      text,
      /<script(?! type="module" src="\/ops\/assets\/console.js"><\/script>)|<style|\sstyle=|\son\w+=/,
      path,
    );
  }
});

t.test('files have an ETag and stay small', async (t) => {
  let bytes = 0;
  for (const name of ['console.css', 'console.js']) {
    const file = await get(`/ops/assets/${name}`);
    t.match(file, { status: 200, headers: { etag: /^".{22}"$/, 'cache-control': 'no-cache' } });
    const again = await get(`/ops/assets/${name}`, { headers: { 'if-none-match': file.headers.etag } });
    t.match(again, { status: 304, text: '' });
    if (name.endsWith('.js')) bytes += file.text.length;
  }
  t.ok(bytes < 60 * 1_024, `${bytes} bytes of script`);
});

t.test('a person chooses the language', async (t) => {
  const inVietnamese = await get('/ops/sign-in', { headers: { 'accept-language': 'vi-VN,vi' } });
  t.match(inVietnamese.text, /<html lang="vi">[\s\S]*Đăng nhập/);
  const chosen = await get('/ops/language?to=en&next=%2Fops%2Fsign-in');
  t.match(chosen, { status: 303, headers: { location: '/ops/sign-in' } });
  const page = await get('/ops/sign-in', { cookie: cookieIn(chosen), headers: { 'accept-language': 'vi' } });
  t.match(page.text, /<html lang="en">/);
  t.match(await get('/ops/language?to=x&next=https://evil.example'), { headers: { location: '/ops/overview' } });
});

t.test('the console is no part of the API', async (t) => {
  const index = await cluster.request('GET', '/v1');
  t.notMatch(index.text, '/ops/overview');
  const { paths } = JSON.parse((await cluster.request('GET', '/openapi.json')).text);
  t.strictSame(
    Object.keys(paths).filter((path) => path.startsWith('/ops')),
    [],
  );
});
