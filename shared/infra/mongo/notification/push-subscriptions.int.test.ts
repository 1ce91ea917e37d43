import t from 'tap';
import { MAX_SUBSCRIPTIONS } from '#shared/notification/push.ts';
import { testBrowser } from '#testing/stored/test-browser.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { deleteSubscription, storeSubscription, subscriptionsOf } from './push-subscriptions.ts';

t.test('a user has at most ten browsers, the newest ones, each once', async (t) => {
  const mongo = await openTestMongo(t);
  const browsers = Array.from({ length: MAX_SUBSCRIPTIONS + 2 }, () => testBrowser().subscription);
  t.strictSame(await subscriptionsOf(mongo, 'u'), []);
  for (const browser of browsers) await storeSubscription(mongo, 'u', browser);
  const ids = async () => (await subscriptionsOf(mongo, 'u')).map(({ id }) => id);
  const newest = browsers.slice(2).map(({ id }) => id);
  t.strictSame(await ids(), newest);

  const [known] = browsers.slice(5);
  if (known === undefined) throw new Error('no browser');
  await storeSubscription(mongo, 'u', { ...known, auth: 'a new secret' });
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
