import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { DAY } from '#shared/kernel/time.ts';
import { readUnsubscribeToken, unsubscribeKey, unsubscribeUrl } from './email.ts';
import {
  isChannelOff,
  MAX_ENABLED_TYPES,
  preferencesFaults,
  preferencesView,
  readPreferencesPatch,
  TOO_MANY_TYPES,
} from './preferences.ts';

const pathsOf = (body: unknown) => preferencesFaults(body).map(({ path }) => path);

t.test('a preferences patch maps valid type names to booleans', async (t) => {
  const good = [
    'A',
    'a',
    '9A',
    'A-B',
    'a.b.v1',
    '$A',
    '$set',
    'constructor',
    ' ',
    'Điểm thi',
    '🎓',
    '%24',
    'x'.repeat(128),
  ];
  t.strictSame(preferencesFaults({ enabledTypes: Object.fromEntries(good.map((name) => [name, false])) }), []);
  t.strictSame(preferencesFaults({ enabledTypes: { ['🎓'.repeat(128)]: true } }), [], 'characters are code points');
  const bad = ['', 'A\n', '\t', 'a\u007f', 'a\u0085', 'x'.repeat(129)];
  t.strictSame(
    pathsOf({ enabledTypes: Object.fromEntries(bad.map((name) => [name, true])) }).sort(),
    bad.map((name) => `/enabledTypes/${name}`).sort(),
    'all of them at once',
  );
  t.strictSame(pathsOf({ enabledTypes: { 'a/b~': 1 } }), ['/enabledTypes/a~1b~0'], 'a JSON pointer');
  t.strictSame(pathsOf({ enabledTypes: { A: 'true', B: 1, C: null, D: {} } }), [
    ...['A', 'B', 'C', 'D'].map((name) => `/enabledTypes/${name}`),
  ]);
  t.equal(pathsOf({ enabledTypes: { ['🎓'.repeat(129)]: true } }).length, 1);
  const [huge = ''] = pathsOf({ enabledTypes: { ['x'.repeat(100_000)]: true } });
  t.ok(huge.length < 300, 'a giant name makes no giant reply');
  const known = [{ path: '/enabledTypes/A', message: 'reported before' }];
  t.strictSame(preferencesFaults({ enabledTypes: { A: 1 } }, known), [], 'a place is named once');
});

t.test('preferences accept exactly the type names that a notification may have', async (t) => {
  const isType = loadSchemas().validator('notification/notification-type');
  const unit = fc.constantFrom(...'aZ09_.$%~/\\"\u00a0\u2028Đệ🎓 ');
  const text = fc.string({ unit, maxLength: 140 });
  const control = fc
    .tuple(text, fc.constantFrom('\n', '\u0000', '\u009f', '\u2028', ''))
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.oneof(text, control, fc.constant('x'.repeat(128))), (name) => {
      const isAllowed = preferencesFaults({ enabledTypes: { [name]: false } }).length === 0;
      return isAllowed === (isType(name).length === 0);
    }),
  );
  t.pass();
});

t.test('a patch with too many types has one fault; one without a map of types has none here', async (t) => {
  const many = (count: number) => ({
    enabledTypes: Object.fromEntries(Array.from({ length: count }, (_, n) => [`T${n}`, true])),
  });
  t.strictSame(preferencesFaults(many(MAX_ENABLED_TYPES)), []);
  t.strictSame(preferencesFaults(many(MAX_ENABLED_TYPES + 1)), [TOO_MANY_TYPES]);
  for (const other of [{}, { enabledTypes: null }, { enabledTypes: [] }, { enabledTypes: 'A' }, null, 'A', []]) {
    t.strictSame(preferencesFaults(other), [], JSON.stringify(other));
  }
});

t.test('a patch ends a mute with null and leaves an absent mute unchanged', async (t) => {
  t.strictSame(readPreferencesPatch({}), { enabledTypes: {}, mutedUntil: undefined });
  t.strictSame(readPreferencesPatch({ mutedUntil: null }).mutedUntil, null);
  t.strictSame(
    readPreferencesPatch({ mutedUntil: '2026-09-01T08:00:00+07:00' }).mutedUntil,
    new Date('2026-09-01T01:00:00.000Z'),
  );
  t.strictSame(preferencesView(null), { enabledTypes: {}, mutedUntil: null, updatedAt: null });
});

t.test('a channel is off only by an explicit false, and a reply shows the choice once it is made', async (t) => {
  const row = { enabledTypes: {}, mutedUntil: null, updatedAt: null };
  t.equal(isChannelOff(null, 'email'), false);
  t.equal(isChannelOff({}, 'email'), false);
  for (const channels of [null, {}, { email: true }]) t.equal(isChannelOff({ channels }, 'email'), false);
  t.equal(isChannelOff({ channels: { email: false } }, 'email'), true);
  t.equal(isChannelOff({ channels: { email: false } }, 'webhook'), false);
  for (const name of ['toString', 'constructor']) t.equal(isChannelOff({ channels: {} }, name), false, name);
  t.strictSame(Object.keys(preferencesView(null)), ['enabledTypes', 'mutedUntil', 'updatedAt']);
  t.strictSame(preferencesView({ ...row, channels: null }), row);
  t.strictSame(preferencesView({ ...row, channels: { email: false } }), { ...row, channels: { email: false } });
  t.strictSame(readPreferencesPatch({ channels: null }).channels, undefined, 'null is an absent field');
});

t.test('a patch names personal channels only', async (t) => {
  const faults = loadSchemas().validator('notification/preferences-patch');
  t.strictSame(faults({ channels: { email: false } }), []);
  for (const channels of [{ webhook: false }, { log: false }, { email: 'no' }, { inbox: false }, [], false])
    t.equal(faults({ channels }).length > 0, true, JSON.stringify(channels));
});

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
