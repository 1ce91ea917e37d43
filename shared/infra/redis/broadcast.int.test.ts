import t from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { subscribeToBroadcasts } from './broadcast.ts';
import { openChangeFeed, openChangePublisher } from './change-feed.ts';
import type { LinkLog } from './link.ts';
import { openReplySender, openReplyWaiters, type ReplySender, type ReplyWaiters } from './replies.ts';

const log: LinkLog = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const never = async () => false;
/** Longer than any test runs: a wait that nothing else ends makes its test fail. */
const AN_HOUR = 3_600_000;

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

async function senderAndWaiters(t: { teardown(fn: () => Promise<void>): void }) {
  const sender = openReplySender({ redisUrl: redis.url, log });
  const waiters = openReplyWaiters({ redisUrl: redis.url, log });
  t.teardown(async () => {
    await Promise.all([sender.close(), waiters.close()]);
  });
  await replyArrives(sender, waiters);
  return { sender, waiters };
}

/** Resolves once a reply has arrived from end to end. */
async function replyArrives(sender: ReplySender, waiters: ReplyWaiters): Promise<void> {
  const waiter = waiters.register('probe');
  const arrived = waiter.settled({ timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never });
  const sending = setInterval(() => sender.send('probe'), 20);
  await arrived;
  clearInterval(sending);
}

t.test('a reply wakes the waiter of its command', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  const settled = waiters.register('c-1').settled({ timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never });
  sender.send('someone-else');
  sender.send('c-1');
  t.equal(await settled, true);
  t.equal(waiters.size(), 0);
});

t.test('a reply that arrives between register and settled is not lost', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  const early = waiters.register('c-1');
  const marker = waiters.register('marker').settled({ timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never });
  sender.send('c-1');
  sender.send('marker');
  await marker;
  t.equal(await early.settled({ timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never }), true);
  t.equal(waiters.size(), 0);
});

t.test('a reply wakes all waiters of its command, although one was cancelled', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  const both = [waiters.register('c-1'), waiters.register('c-1')];
  const cancelled = waiters.register('c-1');
  cancelled.cancel();
  cancelled.cancel();
  const settled = both.map((waiter) => waiter.settled({ timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never }));
  sender.send('c-1');
  t.strictSame(await Promise.all(settled), [true, true]);
  t.equal(waiters.size(), 0);
});

t.test('the poll finds a command whose reply was lost, never overlaps itself and survives errors', async (t) => {
  const { waiters } = await senderAndWaiters(t);
  let polls = 0;
  let polling = 0;
  let most = 0;
  const isSettled = async () => {
    polls += 1;
    polling += 1;
    most = Math.max(most, polling);
    await new Promise((resolve) => setTimeout(resolve, 20));
    polling -= 1;
    if (polls === 1) throw new Error('MongoDB is away');
    return polls === 4;
  };
  t.equal(await waiters.register('c-1').settled({ timeoutMs: AN_HOUR, pollMs: 2, isSettled }), true);
  t.strictSame({ polls, most }, { polls: 4, most: 1 });
  t.equal(waiters.size(), 0);
});

t.test('a poll that throws synchronously counts as not settled', async (t) => {
  const { waiters } = await senderAndWaiters(t);
  let polls = 0;
  const isSettled = () => {
    polls += 1;
    if (polls === 1) throw new Error('thrown');
    return Promise.resolve(true);
  };
  t.equal(await waiters.register('c-1').settled({ timeoutMs: AN_HOUR, pollMs: 1, isSettled }), true);
});

t.test('without Redis the poll alone ends the wait, and runs twice as often', async (t) => {
  const { waiters: hearing } = await senderAndWaiters(t);
  const disconnected = openReplyWaiters({ redisUrl: `redis://127.0.0.1:${await freePort()}`, log });
  const sender = openReplySender({ redisUrl: `redis://127.0.0.1:${await freePort()}`, log });
  sender.send('c-1');
  let order = '';
  const settleAs = (letter: string) => async () => {
    order += letter;
    return true;
  };
  await Promise.all([
    hearing.register('c-1').settled({ timeoutMs: AN_HOUR, pollMs: 200, isSettled: settleAs('h') }),
    disconnected.register('c-1').settled({ timeoutMs: AN_HOUR, pollMs: 200, isSettled: settleAs('d') }),
  ]);
  t.equal(order, 'dh');
  await Promise.all([disconnected.close(), sender.close()]);
});

t.test('timeout, abort, cancel and close end a wait with false and free its waiter', async (t) => {
  const { waiters } = await senderAndWaiters(t);
  const endless = { timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never };
  t.equal(await waiters.register('c-1').settled({ ...endless, timeoutMs: 5 }), false);

  const hangUp = new AbortController();
  const aborted = waiters.register('c-2').settled({ ...endless, signal: hangUp.signal });
  hangUp.abort();
  t.equal(await aborted, false);
  t.equal(await waiters.register('c-3').settled({ ...endless, signal: hangUp.signal }), false);

  const waiter = waiters.register('c-4');
  const cancelled = waiter.settled(endless);
  waiter.cancel();
  t.equal(await cancelled, false);

  const hanging = waiters
    .register('c-5')
    .settled({ ...endless, pollMs: 1, timeoutMs: 30, isSettled: () => new Promise(() => {}) });
  t.equal(await hanging, false, 'a poll that never ends does not delay the timeout');

  const closed = waiters.register('c-6').settled(endless);
  await waiters.close();
  t.equal(await closed, false);
  t.equal(waiters.size(), 0);
});

t.test('a poll that ends after the wait is not followed by another poll', async (t) => {
  const { waiters } = await senderAndWaiters(t);
  const endless = { timeoutMs: AN_HOUR, pollMs: 1, isSettled: never };
  const gate = Promise.withResolvers<boolean>();
  let polls = 0;
  const isSettled = () => {
    polls += 1;
    return gate.promise;
  };
  t.equal(await waiters.register('c-1').settled({ ...endless, timeoutMs: 50, isSettled }), false);
  gate.resolve(false);
  await waiters.register('c-2').settled({ ...endless, timeoutMs: 50 });
  t.equal(polls, 1);
});

t.test('five thousand waiters share one subscription and leave no timer behind', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const { signal } = new AbortController();
  const waits = Array.from({ length: 5_000 }, (_, i) =>
    waiters.register(`c-${i % 2_500}`).settled({
      timeoutMs: i % 5 === 0 ? 50 : AN_HOUR,
      pollMs: AN_HOUR,
      isSettled: never,
      ...(i === 0 ? { signal } : {}),
    }),
  );
  t.equal(waiters.size(), 5_000);
  t.ok(timers() > before + 5_000);
  t.strictSame(await redis.command('PUBSUB', 'NUMSUB', 'examhall:replies'), ['examhall:replies', 1]);
  await Promise.all(waits.filter((_, i) => i % 5 === 0));
  for (let i = 0; i < 2_500; i += 1) {
    sender.send(`c-${i}`);
    // The sender drops messages beyond a thousand in flight.
    if (i % 500 === 499) await waits[i];
  }
  await Promise.all(waits);
  t.equal(waiters.size(), 0);
  await until('the timers are gone', () => timers() <= before + 2);
});

t.test('the sender drops replies beyond a thousand in flight', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  const endless = { timeoutMs: AN_HOUR, pollMs: AN_HOUR, isSettled: never };
  const first = waiters.register('c-0').settled(endless);
  const beyond = waiters.register('c-1499');
  for (let i = 0; i < 1_500; i += 1) sender.send(`c-${i}`);
  t.equal(await first, true);
  await replyArrives(sender, waiters);
  t.equal(await beyond.settled({ ...endless, timeoutMs: 1 }), false);
});

t.test('replies arrive again after a restart of Redis', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  await redis.kill9();
  sender.send('lost');
  await redis.start();
  await replyArrives(sender, waiters);
});

t.test('sending replies never waits for a hung Redis, and replies arrive again once it answers', async (t) => {
  const { sender, waiters } = await senderAndWaiters(t);
  redis.freeze();
  for (let i = 0; i < 5_000; i += 1) sender.send(`c-${i}`);
  t.equal(await waiters.register('c-1').settled({ timeoutMs: AN_HOUR, pollMs: 1, isSettled: async () => true }), true);
  redis.thaw();
  await replyArrives(sender, waiters);
});

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
  await until('the listeners are called', () => called.length >= 4);
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
