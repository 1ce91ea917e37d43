import t from 'tap';
import {
  MAX_ENABLED_TYPES,
  preferencesFaults,
  preferencesView,
  readPreferencesPatch,
  TOO_MANY_TYPES,
} from './preferences.ts';

const pathsOf = (body: unknown) => preferencesFaults(body).map(({ path }) => path);

t.test('a patch names types and says true or false', async (t) => {
  t.strictSame(preferencesFaults({ enabledTypes: { A: true, [`B${'_'.repeat(63)}`]: false, X9: true } }), []);
  const bad = ['a', '9A', '_A', 'A-B', 'A.B', '$A', '', `B${'_'.repeat(64)}`];
  t.strictSame(
    pathsOf({ enabledTypes: Object.fromEntries(bad.map((name) => [name, true])) }).sort(),
    bad.map((name) => `/enabledTypes/${name}`).sort(),
    'all of them at once',
  );
  t.strictSame(pathsOf({ enabledTypes: { 'a/b~': true } }), ['/enabledTypes/a~1b~0'], 'a JSON pointer');
  t.strictSame(pathsOf({ enabledTypes: { A: 'true', B: 1, C: null, D: {} } }), [
    ...['A', 'B', 'C', 'D'].map((name) => `/enabledTypes/${name}`),
  ]);
});

t.test('too many at once are told without their names; what is no map at all the schema tells', async (t) => {
  const many = (count: number) => ({
    enabledTypes: Object.fromEntries(Array.from({ length: count }, (_, n) => [`T${n}`, true])),
  });
  t.strictSame(preferencesFaults(many(MAX_ENABLED_TYPES)), []);
  t.strictSame(preferencesFaults(many(MAX_ENABLED_TYPES + 1)), [TOO_MANY_TYPES]);
  for (const other of [{}, { enabledTypes: null }, { enabledTypes: [] }, { enabledTypes: 'A' }, null, 'A', []]) {
    t.strictSame(preferencesFaults(other), [], JSON.stringify(other));
  }
});

t.test('null ends a mute, absence leaves it', async (t) => {
  t.strictSame(readPreferencesPatch({}), { enabledTypes: {}, mutedUntil: undefined });
  t.strictSame(readPreferencesPatch({ mutedUntil: null }).mutedUntil, null);
  t.strictSame(
    readPreferencesPatch({ mutedUntil: '2026-09-01T08:00:00+07:00' }).mutedUntil,
    new Date('2026-09-01T01:00:00.000Z'),
  );
  t.strictSame(preferencesView(null), { enabledTypes: {}, mutedUntil: null, updatedAt: null });
});
