import t from 'tap';
import { MAX_SUBSCRIPTIONS } from '#shared/notification/push.ts';
import { testBrowser } from '#testing/stored/test-browser.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { pushSubscriptions } from './collections.ts';
import { deleteSubscription, storeSubscription, subscriptionsOf } from './push-subscriptions.ts';

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
