import t from 'tap';
import { MAX_ENABLED_TYPES } from '#shared/notification/preferences.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findPreferences, patchPreferences, preferencesOf } from './preferences.ts';

const types = (from: number, to: number) =>
  Object.fromEntries(Array.from({ length: to - from }, (_, n) => [`T${from + n}`, n % 2 === 0]));

t.test('a patch is merged, and settings that it does not name stay', async (t) => {
  const mongo = await openTestMongo(t);
  const patch = (enabledTypes: Record<string, boolean>, mutedUntil?: Date | null) =>
    patchPreferences(mongo, 'u', { enabledTypes, mutedUntil });
  t.equal(await findPreferences(mongo, 'u'), null);
  const until = new Date('2027-01-01T00:00:00.000Z');
  t.match(await patch({ A: false, B: true }), {
    kind: 'patched',
    preferences: { enabledTypes: { A: false, B: true }, mutedUntil: null },
  });
  t.match(await patch({ B: false, C: true }, until), {
    preferences: { enabledTypes: { A: false, B: false, C: true }, mutedUntil: until, updatedAt: Date },
  });
  t.match(await patch({}), { preferences: { mutedUntil: until } });
  const last = await patch({}, null);
  if (last.kind !== 'patched') throw new Error(last.kind);
  t.match(last.preferences, { mutedUntil: null });
  t.strictSame(last.preferences.enabledTypes, { A: false, B: false, C: true });
  t.match(await findPreferences(mongo, 'u'), { enabledTypes: { A: false, B: false, C: true }, mutedUntil: null });
  t.equal(await findPreferences(mongo, 'another'), null);
});

t.test('the bound is checked on the merged types, and a refused patch changes nothing', async (t) => {
  const mongo = await openTestMongo(t);
  const patch = (enabledTypes: Record<string, boolean>, mutedUntil?: Date) =>
    patchPreferences(mongo, 'u', { enabledTypes, mutedUntil });
  const most = types(0, MAX_ENABLED_TYPES);
  t.equal((await patch(most)).kind, 'patched');
  t.strictSame(await patch({ ONE_MORE: true }, new Date()), { kind: 'full' });
  t.match(await findPreferences(mongo, 'u'), { mutedUntil: null });
  t.match(await patch({ T0: false }), { preferences: { enabledTypes: { T0: false } } }, 'a known type takes no room');
});

t.test('concurrent patches, the first one among them, are all stored up to the bound', async (t) => {
  const mongo = await openTestMongo(t);
  const one = (n: number) => patchPreferences(mongo, 'u', { enabledTypes: { [`T${n}`]: true }, mutedUntil: undefined });
  const stored = await Promise.all(Array.from({ length: 8 }, (_, n) => one(n)));
  t.ok(stored.every(({ kind }) => kind === 'patched'));
  t.strictSame(
    Object.keys((await findPreferences(mongo, 'u'))?.enabledTypes ?? {}).sort(),
    Object.keys(types(0, 8)).sort(),
  );

  await patchPreferences(mongo, 'u', { enabledTypes: types(8, MAX_ENABLED_TYPES - 1), mutedUntil: undefined });
  const raced = await Promise.all([600, 601, 602, 603].map(one));
  t.equal(raced.filter(({ kind }) => kind === 'patched').length, 1, 'one seat, one taker');
});

t.test('a type of any name is stored as it is and merged by its name', async (t) => {
  const mongo = await openTestMongo(t);
  const patch = (enabledTypes: Record<string, boolean>) =>
    patchPreferences(mongo, 'u', { enabledTypes, mutedUntil: undefined });
  const names = ['a.b.v1', 'a', '$set', '$', '.', '..', '$a.b', '%24', '%', '%2', '%2524', 'Điểm', '🎓 x', 'toString'];
  t.equal((await patch(Object.fromEntries(names.map((name) => [name, true])))).kind, 'patched');
  const wanted: Record<string, boolean> = Object.fromEntries(names.map((name) => [name, true]));
  for (const name of names) {
    wanted[name] = false;
    const patched = await patch({ [name]: false });
    if (patched.kind !== 'patched') throw new Error(patched.kind);
    t.strictSame(patched.preferences.enabledTypes, wanted, name);
  }
  t.strictSame((await findPreferences(mongo, 'u'))?.enabledTypes, wanted);
  t.strictSame((await preferencesOf(mongo, ['u'])).get('u')?.enabledTypes, wanted);
});

t.test('the choice of channels is absent until it is made, and merged by channel', async (t) => {
  const mongo = await openTestMongo(t);
  const patch = (channels?: { email?: boolean }, enabledTypes = {}) =>
    patchPreferences(mongo, 'u', {
      enabledTypes,
      mutedUntil: undefined,
      ...(channels === undefined ? {} : { channels }),
    });
  await patch(undefined, { A: false });
  t.equal((await findPreferences(mongo, 'u'))?.channels ?? null, null);
  await patch({ email: false });
  await patch({}, { B: false });
  t.match(await findPreferences(mongo, 'u'), { channels: { email: false }, enabledTypes: { A: false, B: false } });
  await patch({ email: true });
  t.strictSame((await findPreferences(mongo, 'u'))?.channels, { email: true });
  t.strictSame(await patch({ email: false }, types(0, MAX_ENABLED_TYPES)), { kind: 'full' });
  t.strictSame((await findPreferences(mongo, 'u'))?.channels, { email: true });
});
