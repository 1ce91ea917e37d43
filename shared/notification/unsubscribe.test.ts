import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { readUnsubscribeToken, unsubscribeKey, unsubscribeUrl } from './unsubscribe.ts';

const KEY = unsubscribeKey('a secret of the test, which is long enough');
const NOW = 1_790_000_000_000;
const BASE = 'https://api.school.example/v1/notifications/unsubscribe?tenant=1';

const tokenFor = (userId: string, key = KEY) =>
  new URL(unsubscribeUrl(BASE, key, { userId, channel: 'email' }, NOW)).searchParams.get('token') ?? '';

t.test('a link names one user and one channel, and keeps the query of its base', async (t) => {
  const url = new URL(unsubscribeUrl(BASE, KEY, { userId: 'student-7', channel: 'email' }, NOW));
  t.equal(url.origin + url.pathname, 'https://api.school.example/v1/notifications/unsubscribe');
  t.equal(url.searchParams.get('tenant'), '1');
  t.strictSame(readUnsubscribeToken(KEY, tokenFor('student-7'), NOW), { userId: 'student-7', channel: 'email' });
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 }), (userId) => {
      return readUnsubscribeToken(KEY, tokenFor(userId), NOW)?.userId === userId;
    }),
  );
});

t.test('a token that is expired, changed or signed by another key permits nothing', async (t) => {
  const token = tokenFor('student-7');
  t.not(readUnsubscribeToken(KEY, token, NOW + 400 * DAY - 1_000), null);
  t.equal(readUnsubscribeToken(KEY, token, NOW + 400 * DAY), null, 'expired');
  t.equal(readUnsubscribeToken(unsubscribeKey('another secret'), token, NOW), null, 'another key');
  const parts = token.split('.');
  const changed = (at: number, value: string) => parts.map((part, index) => (index === at ? value : part)).join('.');
  for (const forged of [
    changed(0, '2'),
    changed(1, Buffer.from('student-8').toString('base64url')),
    changed(2, 'webpush'),
    changed(3, '9999999999'),
    changed(4, 'A'.repeat(22)),
    changed(4, ''),
    token.slice(0, -1),
    `${token}A`,
    `${token}\n`,
    '',
  ])
    t.equal(readUnsubscribeToken(KEY, forged, NOW), null, forged);
});
