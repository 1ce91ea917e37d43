import t from 'tap';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { subscribeToBroadcasts } from './broadcast.ts';
import { openChangeFeed, openChangePublisher } from './change-feed.ts';
import type { LinkLog } from './link.ts';

const log: LinkLog = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const redis = await ownRedis();
t.teardown(() => redis.close());
const link = { redisUrl: redis.url, log, of: 'inboxes' } as const;

/** Messages on the channel of the inboxes, and whether each user's listener was called. */
const messages: string[][] = [];
const subscription = subscribeToBroadcasts({
  ...link,
  purpose: 'counting messages',
  channel: 'examhall:inbox',
  receive: (text) => void messages.push(JSON.parse(text)),
});
const publisher = openChangePublisher(link);
const feed = openChangeFeed(link);
t.teardown(() => Promise.all([publisher.close(), feed.close(), subscription.close()]));
await until('both subscriptions receive', () => {
  publisher.publish(['probe']);
  return messages.length > 0 && feed.isConnected();
});

/** Publishes a mark, and returns the messages before it. */
async function messagesBefore(mark: string): Promise<string[][]> {
  await new Promise(setImmediate);
  publisher.publish([mark]);
  await until('the mark arrives', () => messages.some((ids) => ids.includes(mark)));
  return messages.splice(0).filter((ids) => !ids.includes(mark) && !ids.includes('probe'));
}

t.test('changes of one turn are one message, and the next turn begins another', async (t) => {
  await messagesBefore('begin');
  const called: string[] = [];
  for (const id of ['an', 'binh', 'chi']) feed.listen(id, () => called.push(id));
  publisher.publish(['an', 'binh']);
  publisher.publish([]);
  publisher.publish(['binh', 'chi']);
  await new Promise(setImmediate);
  publisher.publish(['an']);
  t.strictSame(await messagesBefore('end'), [['an', 'binh', 'chi'], ['an']]);
  t.strictSame(called, ['an', 'binh', 'chi', 'an'], 'each listener once for each message');
});

t.test('a large change is cut into messages, and none is lost when the publisher closes', async (t) => {
  const closing = openChangePublisher(link);
  await until('the publisher is connected', async () => {
    closing.publish(['probe']);
    await new Promise(setImmediate);
    return messages.splice(0).length > 0;
  });
  const ids = Array.from({ length: 1_200 }, (_, n) => `user-${n}`);
  closing.publish(ids);
  await closing.close();
  const found = await messagesBefore('closed');
  t.strictSame(
    found.map((part) => part.length),
    [500, 500, 200],
  );
  t.strictSame(found.flat(), ids);
});

t.test('a listener of this process is called at once, without Redis', async (t) => {
  let calls = 0;
  const end = feed.listen('dung', () => {
    calls += 1;
  });
  feed.notify(['dung', 'dung']);
  t.equal(calls, 1);
  end();
  feed.notify(['dung']);
  t.equal(calls, 1);
});
