import { createHash, createHmac } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import jwt from 'jsonwebtoken';
import t from 'tap';
import { ROLES } from '#shared/auth/account.ts';
import type { DeviceClaims } from '#shared/auth/device.ts';
import type { AccessClaims, RefreshClaims, TokenTimes } from '#shared/auth/session.ts';
import { openSigner } from './signer.ts';

const NOW_SECONDS = Date.UTC(2026, 10, 21) / 1_000;
const SECRET = 'the secret of these tests, 32 bytes';
const OTHER_SECRET = 'another one of these tests, 32 bytes';

const signerOf = (secret: string, previousSecrets: readonly string[] = []) =>
  openSigner({ secret, previousSecrets, issuer: 'examhall', now: () => NOW_SECONDS * 1_000 });
const signer = signerOf(SECRET);
const other = signerOf(OTHER_SECRET);
const rotating = signerOf(OTHER_SECRET, [SECRET]);

const text = fc.string({ unit: 'binary', maxLength: 60 });
const times: fc.Arbitrary<TokenTimes> = fc
  .record({ age: fc.integer({ min: 0, max: 10_000 }), left: fc.integer({ min: 1, max: 10_000 }) })
  .map(({ age, left }) => ({ iat: NOW_SECONDS - age, exp: NOW_SECONDS + left }));

const accessClaims: fc.Arbitrary<AccessClaims & TokenTimes> = fc
  .record({
    sub: text,
    type: fc.constant('access' as const),
    role: fc.constantFrom(...ROLES),
    accountCode: text,
    fullName: text,
    email: text,
    defaultOrganizationId: text,
    sid: text,
    jti: text,
    times,
  })
  .map(({ times, ...claims }) => ({ ...claims, ...times }));
const refreshClaims: fc.Arbitrary<RefreshClaims & TokenTimes> = fc
  .record({ sub: text, type: fc.constant('refresh' as const), jti: text, sid: text, times })
  .map(({ times, ...claims }) => ({ ...claims, ...times }));

const deviceClaims: fc.Arbitrary<DeviceClaims & TokenTimes> = fc
  .record({ sub: text, type: fc.constant('device' as const), sid: text, epoch: text, times })
  .map(({ times, ...claims }) => ({ ...claims, ...times }));

/** For each kind of token: its claims, its signer and its reader. */
const kinds = [
  { claims: accessClaims, sign: signer.access, read: 'readAccess' },
  { claims: refreshClaims, sign: signer.refresh, read: 'readRefresh' },
  { claims: deviceClaims, sign: signer.device, read: 'readDevice' },
] as const;

for (const { claims, sign, read } of kinds) {
  const tokens = (claims as fc.Arbitrary<never>).map((said) => ({ said, token: sign(said) }));
  const others = kinds.map((kind) => kind.read).filter((kind) => kind !== read);

  t.test(`${read}: a token is valid for any signer with its secret, and never as another kind`, async () => {
    fc.assert(
      fc.property(
        tokens,
        ({ said, token }) =>
          isDeepStrictEqual(signer[read](token), said) &&
          isDeepStrictEqual(rotating[read](token), said) &&
          other[read](token) === null &&
          others.every((as) => signer[as](token) === null && rotating[as](token) === null),
      ),
    );
  });

  t.test(`${read}: a token with any bit of any byte flipped is refused`, async () => {
    fc.assert(
      fc.property(tokens, fc.nat(), fc.nat(7), ({ token }, place, bit) => {
        const bytes = Buffer.from(token, 'latin1');
        const at = place % bytes.length;
        bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
        return signer[read](bytes.toString('latin1')) === null;
      }),
      { numRuns: 1_000 },
    );
    fc.assert(
      fc.property(tokens, ({ token }) =>
        [...token].every((was, at) => {
          const letter = was === 'A' ? 'B' : 'A';
          return signer[read](token.slice(0, at) + letter + token.slice(at + 1)) === null;
        }),
      ),
      { numRuns: 5 },
    );
  });

  t.test(`${read}: a token signed again with the secret is only valid as an access token`, async () => {
    const typ = fc.constantFrom('at+jwt', 'rt+jwt', 'dt+jwt', 'JWT', 'at+JWT', undefined);
    const type = fc.constantFrom('access', 'refresh', 'device', 'Access', '', null, undefined);
    fc.assert(
      fc.property(tokens, typ, type, ({ said, token }, otherTyp, otherType) => {
        const { header } = jwt.decode(token, { complete: true }) ?? {};
        const payload = { ...(said as object), type: otherType, iss: 'examhall' };
        const again = jwt.sign(payload, SECRET, { header: { ...header, alg: 'HS256', typ: otherTyp } as never });
        // The secret alone signs access tokens and nothing else.
        const isAccess = otherTyp === 'at+jwt' && otherType === 'access' && read === 'readAccess';
        const isOther = signer.readRefresh(again) !== null || signer.readDevice(again) !== null;
        return (signer.readAccess(again) !== null) === isAccess && !isOther;
      }),
      { numRuns: 300 },
    );
  });
}

t.test('a public library and a bare HMAC verify an access token with the unchanged secret', async () => {
  fc.assert(
    fc.property(accessClaims, fc.string({ minLength: 1, maxLength: 100 }), (said, secret) => {
      const token = signerOf(secret).access(said);
      const options = { algorithms: ['HS256' as const], issuer: 'examhall', clockTimestamp: NOW_SECONDS };
      const [header = '', payload = '', signature = ''] = token.split('.');
      const mac = createHmac('sha256', Buffer.from(secret, 'utf8')).update(`${header}.${payload}`).digest('base64url');
      return isDeepStrictEqual(jwt.verify(token, secret, options), { ...said, iss: 'examhall' }) && mac === signature;
    }),
    { numRuns: 30 },
  );
});

t.test('no library verifies a refresh or a device token with the secret', async () => {
  const signed = fc.oneof(refreshClaims.map(signer.refresh), deviceClaims.map(signer.device));
  fc.assert(
    fc.property(signed, (token) => {
      const options = { algorithms: ['HS256' as const], clockTimestamp: NOW_SECONDS };
      try {
        jwt.verify(token, SECRET, options);
        return false;
      } catch (error) {
        return error instanceof jwt.JsonWebTokenError && error.message === 'invalid signature';
      }
    }),
  );
});

t.test('a kid identifies its secret and is expensive to compute from a guess', async (t) => {
  const kidOf = (token: string) => jwt.decode(token, { complete: true })?.header.kid;
  const [said] = fc.sample(accessClaims, 1);
  const [refreshSaid] = fc.sample(refreshClaims, 1);
  if (said === undefined || refreshSaid === undefined) throw new Error('no sample');
  const kid = kidOf(signer.access(said));
  t.match(kid, /^[\w-]{16}$/);
  t.equal(kidOf(signerOf(SECRET).access(said)), kid, 'every process computes the same kid');
  t.equal(kidOf(signer.refresh(refreshSaid)), kid);
  t.not(kidOf(other.access(said)), kid);
  for (const algorithm of ['md5', 'sha1', 'sha256', 'sha512']) {
    const digests = [
      createHash(algorithm).update(SECRET),
      createHmac(algorithm, SECRET),
      createHmac(algorithm, SECRET).update('examhall kid'),
    ];
    for (const digest of digests) t.notOk(digest.digest('base64url').startsWith(kid ?? ''), algorithm);
  }
});
