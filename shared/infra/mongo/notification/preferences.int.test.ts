import t from 'tap';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { MAX_ENABLED_TYPES } from '#shared/notification/preferences.ts';
import { MAX_SUBSCRIPTIONS } from '#shared/notification/push.ts';
import { testBrowser } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { countAlertCall } from './alert-calls.ts';
import { alertCalls, pushSubscriptions } from './collections.ts';
import { findPreferences, patchPreferences, preferencesOf } from './preferences.ts';
import { deleteSubscription, storeSubscription, subscriptionsOf } from './push-subscriptions.ts';

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

/** Returns a browser that was registered at this time, in Unix milliseconds. */
function browserOf(at: number) {
  return { ...testBrowser().subscription, createdAt: new Date(at) };
}

t.test('a user has at most ten browsers, the newest ones, each once', async (t) => {
  const mongo = await openTestMongo(t);
  const browsers = Array.from({ length: MAX_SUBSCRIPTIONS + 2 }, (_, n) => browserOf(n));
  t.strictSame(await subscriptionsOf(mongo, 'u'), []);
  for (const browser of browsers) await storeSubscription(mongo, 'u', browser);
  const ids = async () => (await subscriptionsOf(mongo, 'u')).map(({ id }) => id);
  const newest = browsers.slice(2).map(({ id }) => id);
  t.strictSame(await ids(), newest);

  const [known] = browsers.slice(5);
  if (known === undefined) throw new Error('no browser');
  await storeSubscription(mongo, 'u', { ...known, auth: 'a new secret', createdAt: new Date(100) });
  t.strictSame(await ids(), [...newest.filter((id) => id !== known.id), known.id]);
  t.match((await subscriptionsOf(mongo, 'u')).at(-1), { id: known.id, auth: 'a new secret' });

  t.equal(await deleteSubscription(mongo, 'u', known.id), true);
  t.equal(await deleteSubscription(mongo, 'u', known.id), false);
  t.equal(await deleteSubscription(mongo, 'another', newest[0] ?? ''), false);
  t.equal((await ids()).length, MAX_SUBSCRIPTIONS - 1);
});

t.test('browsers that are registered at the same time are all stored', async (t) => {
  const mongo = await openTestMongo(t);
  const browsers = Array.from({ length: 6 }, () => testBrowser().subscription);
  await Promise.all(browsers.map((browser) => storeSubscription(mongo, 'u', browser)));
  t.strictSame((await subscriptionsOf(mongo, 'u')).map(({ id }) => id).sort(), browsers.map(({ id }) => id).sort());
});

t.test('a browser gets the messages of the last user who registered it', async (t) => {
  const mongo = await openTestMongo(t);
  const [shared, own] = [browserOf(1), browserOf(2)];
  for (const browser of [shared, own]) await storeSubscription(mongo, 'first', browser);
  await storeSubscription(mongo, 'second', { ...shared, auth: 'a new secret', createdAt: new Date(3) });
  t.strictSame(await subscriptionsOf(mongo, 'first'), [own], 'a delivery that waits does not reach the browser');
  t.match(await subscriptionsOf(mongo, 'second'), [{ id: shared.id, auth: 'a new secret' }]);
  t.equal(await deleteSubscription(mongo, 'first', shared.id), false, 'the first user cannot remove it any more');
  t.equal((await subscriptionsOf(mongo, 'second')).length, 1);
});

t.test('a browser that several users register at the same time belongs to one of them', async (t) => {
  const mongo = await openTestMongo(t);
  const browser = browserOf(1);
  const users = Array.from({ length: 6 }, (_, n) => `user-${n}`);
  await Promise.all(users.map((userId) => storeSubscription(mongo, userId, browser)));
  const found = await Promise.all(users.map((userId) => subscriptionsOf(mongo, userId)));
  t.strictSame(found.flat(), [browser]);
});

t.test('browsers of a user beyond the limit that are registered at the same time leave the newest', async (t) => {
  const mongo = await openTestMongo(t);
  const browsers = Array.from({ length: MAX_SUBSCRIPTIONS + 5 }, (_, n) => browserOf(n));
  await Promise.all(browsers.map((browser) => storeSubscription(mongo, 'u', browser)));
  t.strictSame(await subscriptionsOf(mongo, 'u'), browsers.slice(5));
  t.equal(await pushSubscriptions(mongo).countDocuments({ userId: 'u' }), MAX_SUBSCRIPTIONS);
});

t.test('calls at the same time exceed no limit, the first calls of an actor included', async (t) => {
  const mongo = await openTestMongo(t);
  const count = (actorId: string) => countAlertCall(mongo, actorId, { limit: 5, now: Date.now() });
  const results = await Promise.all(Array.from({ length: 20 }, (_, n) => count(n % 2 === 0 ? 'an' : 'binh')));
  for (const parity of [0, 1]) {
    const own = results.filter((_, n) => n % 2 === parity);
    t.equal(own.filter(({ kind }) => kind === 'counted').length, 5);
  }
  t.strictSame(await alertCalls(mongo).countDocuments({}), 2);
});

t.test('a call is free again when the oldest counted call is an hour old', async (t) => {
  const mongo = await openTestMongo(t);
  const now = Date.now();
  const at = (msAgo: number) => new Date(now - msAgo);
  const count = () => countAlertCall(mongo, 'an', { limit: 3, now });
  await alertCalls(mongo).insertOne({
    _id: 'an',
    calls: [at(HOUR + MINUTE), at(40 * MINUTE), at(20 * MINUTE)],
    lastAt: at(20 * MINUTE),
  });
  t.match(await count(), { kind: 'counted' }, 'the first of the three is forgotten');
  t.strictSame(await count(), { kind: 'refused', retryAfterMs: 20 * MINUTE });
  t.equal((await alertCalls(mongo).findOne({ _id: 'an' }))?.calls.length, 3);
});
