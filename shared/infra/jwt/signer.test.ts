import { createHmac, generateKeyPairSync, hkdfSync, type KeyObject, sign as signWith } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import type { AccessClaims, RefreshClaims, TokenTimes } from '#shared/auth/session.ts';
import { openSigner, type Purpose, type SignerOptions, tokenKeys } from './signer.ts';

const START = Date.UTC(2026, 10, 21, 8, 0, 0, 250);
const SECRET = 'the secret of these tests, 32 bytes';
const OLD_SECRET = 'the secret before it, also 32 bytes';

function signerAt(more: Partial<SignerOptions> & { ms?: number } = {}) {
  const { ms = START, ...options } = more;
  return openSigner({
    secret: SECRET,
    previousSecrets: [],
    issuer: 'examhall',
    now: () => ms,
    ...options,
  });
}

const KEYS = { [SECRET]: tokenKeys(SECRET), [OLD_SECRET]: tokenKeys(OLD_SECRET) };
const TIMES: TokenTimes = { iat: Math.floor(START / 1_000), exp: Math.floor(START / 1_000) + 900 };
const ACCESS: AccessClaims & TokenTimes = {
  sub: 'account',
  type: 'access',
  role: 'STUDENT',
  accountCode: 'ACC-00000000',
  fullName: 'Nguyễn Thảo',
  email: 'a@b.vn',
  defaultOrganizationId: 'local',
  sid: 'session',
  jti: 'a-1',
  ...TIMES,
};
const REFRESH: RefreshClaims & TokenTimes = { sub: 'account', type: 'refresh', jti: 'r-1', sid: 'session', ...TIMES };
const PAYLOAD = { ...ACCESS, iss: 'examhall' };

const segment = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/** Returns a token signed with the real key of `purpose`. Header and payload may be objects or JSON text. */
function forge(
  header: unknown,
  payload: unknown,
  {
    purpose = 'access',
    secret = SECRET,
    digest = 'sha256',
  }: { purpose?: Purpose; secret?: keyof typeof KEYS; digest?: string } = {},
): string {
  return signedWith(KEYS[secret][purpose].key, header, payload, digest);
}

function signedWith(key: Buffer | KeyObject, header: unknown, payload: unknown, digest = 'sha256'): string {
  const signed = `${segment(header)}.${segment(payload)}`;
  return `${signed}.${createHmac(digest, key).update(signed).digest('base64url')}`;
}

const HEADER = KEYS[SECRET].access.header;
const REFRESH_HEADER = KEYS[SECRET].refresh.header;

t.test('a token contains its claims and times', async (t) => {
  const signer = signerAt();
  t.strictSame(signer.readAccess(signer.access(ACCESS)), ACCESS);
  t.strictSame(signer.readRefresh(signer.refresh(REFRESH)), REFRESH);
  const [header = '', payload = ''] = signer.access(ACCESS).split('.');
  const text = (part: string) => Buffer.from(part, 'base64url').toString();
  t.match(text(header), /^\{"alg":"HS256","typ":"at\+jwt","kid":"[\w-]{16}"\}$/);
  t.strictSame(JSON.parse(text(payload)), PAYLOAD);
  t.match(text(signer.refresh(REFRESH).split('.')[0] ?? ''), /"typ":"rt\+jwt"/);
  t.equal(forge(HEADER, PAYLOAD), signer.access(ACCESS), 'the forger of this test knows how it is done');
});

t.test('a token with a long name is accepted, in any script', async () => {
  const signer = signerAt();
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (fullName) => {
      return signer.readAccess(signer.access({ ...ACCESS, fullName }))?.fullName === fullName;
    }),
  );
});

t.test('a token is valid up to its last second, by the clock of the signer', async (t) => {
  const token = signerAt().access(ACCESS);
  const readAt = (ms: number) => signerAt({ ms }).readAccess(token);
  t.not(readAt(TIMES.exp * 1_000 - 1), null);
  t.equal(readAt(TIMES.exp * 1_000), null);
  const refreshToken = signerAt().refresh({ ...REFRESH, exp: TIMES.iat + 2_592_000 });
  const readRefreshAt = (ms: number) => signerAt({ ms }).readRefresh(refreshToken);
  t.not(readRefreshAt((TIMES.iat + 2_592_000) * 1_000 - 1), null);
  t.equal(readRefreshAt((TIMES.iat + 2_592_000) * 1_000), null);
});

t.test('access and refresh tokens are never accepted for each other', async (t) => {
  const signer = signerAt();
  t.equal(signer.readRefresh(signer.access(ACCESS)), null);
  t.equal(signer.readAccess(signer.refresh(REFRESH)), null);
  const refreshKey = { purpose: 'refresh' } as const;
  t.equal(signer.readAccess(forge(HEADER, PAYLOAD, refreshKey)), null, 'the other key under this header');
  t.equal(signer.readAccess(forge(REFRESH_HEADER, PAYLOAD, refreshKey)), null, 'the other header and key');
  t.equal(signer.readAccess(forge(HEADER, { ...PAYLOAD, type: 'refresh' })), null, 'the other type, rightly signed');
  t.equal(signer.readRefresh(forge(REFRESH_HEADER, PAYLOAD, refreshKey)), null);
  const refreshPayload = { ...REFRESH, iss: 'examhall' };
  t.equal(forge(REFRESH_HEADER, refreshPayload, refreshKey), signer.refresh(REFRESH), 'the forger knows this one too');
  const own = Buffer.from(SECRET);
  t.equal(
    signer.readRefresh(signedWith(own, REFRESH_HEADER, refreshPayload)),
    null,
    'a refresh token by the secret itself',
  );
  t.equal(signer.readRefresh(signedWith(own, HEADER, refreshPayload)), null, 'under the header of an access token');
});

t.test('tokens of a replaced secret stay valid while it is configured as an earlier secret', async (t) => {
  const token = signerAt({ secret: OLD_SECRET }).access(ACCESS);
  t.equal(signerAt().readAccess(token), null);
  const rotating = signerAt({ previousSecrets: ['another', OLD_SECRET] });
  t.match(rotating.readAccess(token), ACCESS);
  t.match(signerAt().readAccess(rotating.access(ACCESS)), ACCESS, 'the new one signs');
  t.match(rotating.readRefresh(signerAt({ secret: OLD_SECRET }).refresh(REFRESH)), REFRESH);
  t.throws(() => signerAt({ secret: '' }), /empty secret/);
  t.throws(() => signerAt({ previousSecrets: [''] }), /empty secret/);
});

/** Forged tokens. Wherever possible they are signed with the right key, so that the signature is not the reason for the refusal. */
const FORGED: readonly [string, () => string][] = [
  ['alg none, no signature', () => `${segment({ ...HEADER, alg: 'none' })}.${segment(PAYLOAD)}.`],
  ['alg none, a signature', () => forge({ ...HEADER, alg: 'none' }, PAYLOAD)],
  ['alg nOnE', () => forge({ ...HEADER, alg: 'nOnE' }, PAYLOAD)],
  ['alg HS512', () => forge({ ...HEADER, alg: 'HS512' }, PAYLOAD, { digest: 'sha512' })],
  ['alg HS512 named, HS256 done', () => forge({ ...HEADER, alg: 'HS512' }, PAYLOAD)],
  ['alg RS256 named, HS256 done', () => forge({ ...HEADER, alg: 'RS256' }, PAYLOAD)],
  ['alg RS256 under a key of one’s own', rs256],
  ['no alg', () => forge({ typ: HEADER.typ, kid: HEADER.kid }, PAYLOAD)],
  ['alg as an array', () => forge({ ...HEADER, alg: ['HS256'] }, PAYLOAD)],
  ['typ JWT', () => forge({ ...HEADER, typ: 'JWT' }, PAYLOAD)],
  ['typ in other letters', () => forge({ ...HEADER, typ: 'AT+JWT' }, PAYLOAD)],
  ['no typ', () => forge({ alg: HEADER.alg, kid: HEADER.kid }, PAYLOAD)],
  ['no kid', () => forge({ alg: HEADER.alg, typ: HEADER.typ }, PAYLOAD)],
  ['an unknown kid', () => forge({ ...HEADER, kid: 'AAAAAAAAAAAAAAAA' }, PAYLOAD)],
  ['a kid that is a path', () => forge({ ...HEADER, kid: '../../../../dev/null' }, PAYLOAD)],
  ['a kid that is a query', () => forge({ ...HEADER, kid: "' UNION SELECT 'key" }, PAYLOAD)],
  ['a kid that every object has', () => forge({ ...HEADER, kid: '__proto__' }, PAYLOAD)],
  ['a jku', () => forge({ ...HEADER, jku: 'https://evil.example/jwks.json' }, PAYLOAD)],
  ['a jwk', () => forge({ ...HEADER, jwk: { kty: 'oct', k: 'AAAA' } }, PAYLOAD)],
  ['an x5u', () => forge({ ...HEADER, x5u: 'https://evil.example/cert' }, PAYLOAD)],
  ['crit', () => forge({ ...HEADER, crit: ['exp'] }, PAYLOAD)],
  ['crit and b64', () => forge({ ...HEADER, crit: ['b64'], b64: false }, PAYLOAD)],
  ['a header member twice', () => forge(JSON.stringify(HEADER).replace('{', '{"alg":"none",'), PAYLOAD)],
  ['a header with blanks', () => forge(JSON.stringify(HEADER, null, 1), PAYLOAD)],
  ['a claim twice', () => forge(HEADER, JSON.stringify(PAYLOAD).replace('{', '{"sub":"somebody else",'))],
  ['a claim twice, escaped', () => forge(HEADER, JSON.stringify(PAYLOAD).replace('{', '{"s\\u0075b":"other",'))],
  ['a payload with blanks', () => forge(HEADER, JSON.stringify(PAYLOAD, null, 1))],
  ['a payload that is text', () => forge(HEADER, '"account"')],
  ['a payload that is a list', () => forge(HEADER, '[1]')],
  ['a payload that is no JSON', () => forge(HEADER, '{')],
  ['a payload that is no UTF-8', () => forge(HEADER, '{"sub":"\ud800"}')],
  ['another issuer', () => forge(HEADER, { ...PAYLOAD, iss: 'examhall.example' })],
  ['no issuer', () => forge(HEADER, { ...PAYLOAD, iss: undefined })],
  ['issuers', () => forge(HEADER, { ...PAYLOAD, iss: ['examhall'] })],
  ['no expiry', () => forge(HEADER, { ...PAYLOAD, exp: undefined })],
  ['an expiry that is text', () => forge(HEADER, { ...PAYLOAD, exp: '9999999999' })],
  ['an expiry that is no whole second', () => forge(HEADER, { ...PAYLOAD, exp: PAYLOAD.exp + 0.5 })],
  ['an expiry in the past', () => forge(HEADER, { ...PAYLOAD, exp: PAYLOAD.iat })],
  ['not before later', () => forge(HEADER, { ...PAYLOAD, nbf: PAYLOAD.exp })],
  ['a claim less', () => forge(HEADER, { ...PAYLOAD, sid: undefined })],
  ['a claim of another type', () => forge(HEADER, { ...PAYLOAD, sub: { $ne: null } })],
  ['a role that is none', () => forge(HEADER, { ...PAYLOAD, role: 'ROOT' })],
  ['another secret', () => forge(KEYS[OLD_SECRET].access.header, PAYLOAD, { secret: OLD_SECRET })],
  ['another secret under this kid', () => forge(HEADER, PAYLOAD, { secret: OLD_SECRET })],
  ['the key of refresh tokens', () => forge(HEADER, PAYLOAD, { purpose: 'refresh' })],
  ['a derived key', () => signedWith(Buffer.from(hkdfSync('sha256', SECRET, '', '', 32)), HEADER, PAYLOAD)],
  ['an empty key', () => signedWith(Buffer.alloc(0), HEADER, PAYLOAD)],
  ['hidden bits in a payload', hiddenBits],
  ['20 KB', () => forge(HEADER, { ...PAYLOAD, fullName: 'x'.repeat(20_000) })],
];

/** Returns a token whose payload has the same bytes in another spelling: its last character contains 2 unused bits. */
function hiddenBits(): string {
  const pad = [0, 1, 2].map((n) => 'x'.repeat(n)).find((x) => segment({ ...PAYLOAD, fullName: x }).length % 4 === 3);
  const payload = segment({ ...PAYLOAD, fullName: pad });
  const twin = payload.slice(0, -1) + String.fromCharCode(payload.charCodeAt(payload.length - 1) + 1);
  const signed = `${segment(HEADER)}.${twin}`;
  return `${signed}.${createHmac('sha256', KEYS[SECRET].access.key).update(signed).digest('base64url')}`;
}

function rs256(): string {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const signed = `${segment({ ...HEADER, alg: 'RS256' })}.${segment(PAYLOAD)}`;
  return `${signed}.${signWith('sha256', Buffer.from(signed), privateKey).toString('base64url')}`;
}

for (const [name, token] of FORGED) {
  t.test(`the signer refuses a forged token: ${name}`, async (t) => {
    t.equal(signerAt().readAccess(token()), null);
    t.equal(signerAt().readRefresh(token()), null);
    t.equal(signerAt().readDevice(token()), null);
  });
}

t.test('the signer refuses every other spelling of a valid token', async (t) => {
  const signer = signerAt();
  const token = signer.access(ACCESS);
  const [header = '', payload = '', signature = ''] = token.split('.');
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  // 32 bytes are 42 characters and 4 bits of the last one. Its other 2 bits are unused.
  const last = letters.indexOf(signature.at(-1) ?? '');
  for (const other of [1, 2, 3]) {
    const twin = signature.slice(0, -1) + letters[last ^ other];
    t.same(Buffer.from(twin, 'base64url'), Buffer.from(signature, 'base64url'), 'the same bytes');
    t.equal(signer.readAccess(`${header}.${payload}.${twin}`), null);
  }
  for (const spelling of [
    '',
    '.',
    '..',
    `${header}.${payload}`,
    `${header}.${payload}.`,
    `${token}.`,
    `${token}.${signature}`,
    `${header}.${payload}.${payload}.${signature}`,
    `${header}.${header}.${payload}.${signature}`,
    `${header}..${signature}`,
    ` ${token}`,
    `${token} `,
    `${token}\n`,
    `${token}=`,
    `${header}=.${payload}.${signature}`,
    `${header}.${payload}.${signature.slice(0, -1)}`,
    `${header}.${payload}\u200b.${signature}`,
    `${header}.${payload}.${Buffer.from(signature, 'base64url').toString('base64')}`,
    `Bearer ${token}`,
    token.toLowerCase(),
  ]) {
    t.equal(signer.readAccess(spelling), null, JSON.stringify(spelling.slice(-20)));
  }
});

t.test('the signer never throws for any text', async () => {
  const signer = signerAt();
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (first, second) => {
      const texts = [first, `${segment(first)}.${segment(second)}.${segment(first)}`, forge(HEADER, first)];
      const readers = [signer.readAccess, signer.readRefresh, signer.readDevice];
      return texts.every((text) => readers.every((read) => read(text) === null));
    }),
  );
});
