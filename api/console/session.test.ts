import t from 'tap';
import { HOUR } from '#shared/kernel/time.ts';
import { cookieOf, isOwnOrigin, newSession, SESSION_MS, type SessionSecrets, sealed, unsealed } from './session.ts';
import { languageOf } from './words.ts';

const NOW = Date.UTC(2026, 4, 4);
const SECRETS: SessionSecrets = { opsToken: ['new-token', 'old-token'], jwtSecrets: ['new-jwt', 'old-jwt'] };
const ACCOUNT = { id: 'account-1', sessionId: 'session-1' };

t.test('a cookie contains its session until its end', async (t) => {
  for (const [account, secret] of [
    [null, 'new-token'],
    [ACCOUNT, 'new-jwt'],
  ] as const) {
    const session = newSession(account, NOW);
    const cookie = sealed(session, secret);
    t.strictSame(unsealed(cookie, SECRETS, NOW), session);
    t.strictSame(unsealed(cookie, SECRETS, NOW + SESSION_MS - 1), session);
    t.equal(unsealed(cookie, SECRETS, NOW + SESSION_MS), null, 'it has ended');
    t.notMatch(cookie, secret);
  }
  t.equal(SESSION_MS, 8 * HOUR);
});

t.test('a cookie is accepted while its secret is, and no longer', async (t) => {
  const old = sealed(newSession(null, NOW), 'old-token');
  t.ok(unsealed(old, SECRETS, NOW), 'during the rotation');
  t.equal(unsealed(old, { ...SECRETS, opsToken: ['new-token'] }, NOW), null);
  t.equal(unsealed(old, { ...SECRETS, opsToken: undefined }, NOW), null);
  t.equal(unsealed(old, { ...SECRETS, opsToken: ['', ''] }, NOW), null);
  const account = sealed(newSession(ACCOUNT, NOW), 'old-jwt');
  t.ok(unsealed(account, SECRETS, NOW));
  t.equal(unsealed(account, { ...SECRETS, jwtSecrets: [] }, NOW), null, 'the process does not serve the auth service');
});

t.test('a holder of one secret cannot sign a session of the other kind', async (t) => {
  t.equal(unsealed(sealed(newSession(ACCOUNT, NOW), 'new-token'), SECRETS, NOW), null, 'an account by OPS_TOKEN');
  t.equal(
    unsealed(sealed(newSession(null, NOW), 'new-jwt'), SECRETS, NOW),
    null,
    'OPS_TOKEN by the secret of access tokens',
  );
  const [, payload, signature] = sealed(newSession(ACCOUNT, NOW), 'new-token').split('.');
  t.equal(unsealed(`token.${payload}.${signature}`, SECRETS, NOW), null, 'renamed');
});

t.test('an altered cookie is refused and never throws', async (t) => {
  const cookie = sealed(newSession(null, NOW), 'new-token');
  for (let i = 0; i < cookie.length; i += 7) {
    const other = cookie[i] === 'A' ? 'B' : 'A';
    t.equal(unsealed(cookie.slice(0, i) + other + cookie.slice(i + 1), SECRETS, NOW), null, `character ${i}`);
  }
  for (const wrong of [
    undefined,
    '',
    '.',
    '..',
    'token..',
    'token.e30.',
    'token.e30.AAAA',
    `${cookie}.x`,
    cookie.slice(0, -3),
    'account.bnVsbA.',
  ]) {
    t.equal(unsealed(wrong, SECRETS, NOW), null, `${wrong}`);
  }
});

t.test('a form is accepted from a page of this origin', async (t) => {
  const host = 'exam.example:8443';
  t.ok(isOwnOrigin({ 'sec-fetch-site': 'same-origin' }));
  t.ok(isOwnOrigin({ host, origin: 'https://exam.example:8443' }));
  t.ok(isOwnOrigin({ host: 'EXAM.example', origin: 'http://exam.example' }));
  for (const site of ['cross-site', 'same-site', 'none', ''])
    t.notOk(isOwnOrigin({ host, origin: `https://${host}`, 'sec-fetch-site': site }), site);
  for (const origin of [
    undefined,
    'null',
    '',
    'exam.example',
    'https://evil.example',
    'https://exam.example',
    'https://a.exam.example:8443',
  ])
    t.notOk(isOwnOrigin({ host, origin }), `${origin}`);
  t.notOk(isOwnOrigin({ origin: 'https://exam.example' }), 'a request without a host');
});

t.test('a cookie is found by its whole name', async (t) => {
  t.equal(cookieOf('a=1; examhall_console=x.y=z; b=2', 'examhall_console'), 'x.y=z');
  t.equal(cookieOf('xexamhall_console=1; examhall_console_language=vi', 'examhall_console'), undefined);
  t.equal(cookieOf(undefined, 'examhall_console'), undefined);
});

t.test('the language is the chosen one, otherwise the preferred one', async (t) => {
  t.equal(languageOf('vi', 'en'), 'vi');
  t.equal(languageOf('toString', 'fr-FR, vi-VN;q=0.8, en;q=0.5'), 'vi');
  t.equal(languageOf(undefined, 'en-GB,vi;q=0.5'), 'en');
  t.equal(languageOf(undefined, '*'), 'en');
  t.equal(languageOf(undefined, undefined), 'en');
});
