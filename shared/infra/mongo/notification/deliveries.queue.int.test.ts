import t from 'tap';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { Channel } from '#shared/notification/delivery.ts';
import { freshNotification } from '#testing/stored/stored-deliveries.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { notifications } from './collections.ts';
import { queueDeliveries } from './deliveries.ts';

const NOW = 1_790_000_000_000;

t.test('one job per notification and channel is queued, with its cause or not at all', async (t) => {
  const mongo = await openTestMongo(t);
  const jobs = () =>
    mongo.db
      .collection<Command>(DELIVERIES)
      .find({}, { sort: { _id: 1 } })
      .toArray();
  const insert = (rows: ReturnType<typeof freshNotification>[], channels: Channel[]) =>
    inTransaction(mongo, 60_000, async (session) => {
      await notifications(mongo).insertMany(rows, { session });
      return queueDeliveries(mongo, rows, { channels: new Set(channels), maxAttempts: 6, now: NOW, session });
    });

  t.strictSame(await insert([freshNotification()], []), [], 'without a channel there is nothing to do');
  t.strictSame(await jobs(), []);

  const [first, second] = [freshNotification({ _id: 'n1' }), freshNotification({ _id: 'n2' })];
  t.strictSame(await insert([first, second], ['log', 'webhook']), [
    { _id: 'n1:log', queue: 'delivery:log', key: 'n1:log' },
    { _id: 'n1:webhook', queue: 'delivery:webhook', key: 'n1:webhook' },
    { _id: 'n2:log', queue: 'delivery:log', key: 'n2:log' },
    { _id: 'n2:webhook', queue: 'delivery:webhook', key: 'n2:webhook' },
  ]);
  t.match(await jobs(), [
    {
      _id: 'n1:log',
      queue: 'delivery:log',
      key: 'n1:log',
      subject: 'n1',
      status: 'PENDING',
      maxAttempts: 6,
      nextRunAt: new Date(NOW),
      body: { notificationId: 'n1', userId: first.userId, channel: 'log' },
    },
    { _id: 'n1:webhook' },
    { _id: 'n2:log' },
    { _id: 'n2:webhook' },
  ]);

  const again = inTransaction(mongo, 60_000, async (session) => {
    await notifications(mongo).insertOne(freshNotification({ _id: 'n3' }), { session });
    const rows = [{ _id: 'n3', userId: 'u3' }, first];
    await queueDeliveries(mongo, rows, { channels: new Set(['log']), maxAttempts: 6, now: NOW, session });
  });
  await t.rejects(again);
  t.ok(await again.catch((error: unknown) => isDuplicateKey(error)), 'the second job of a notification and channel');
  t.equal((await jobs()).length, 4);
  t.equal(await notifications(mongo).findOne({ _id: 'n3' }), null, 'the notification is rolled back');
});

t.test('a job of a channel that its user has turned off is stored as suppressed and not rung for', async (t) => {
  const mongo = await openTestMongo(t);
  const [on, off] = [freshNotification({ _id: 'on' }), freshNotification({ _id: 'off' })];
  const preferences = new Map([
    [on.userId, { channels: { email: true } }],
    [off.userId, { channels: { email: false } }],
  ]);
  const channels = new Set<Channel>(['log', 'email']);
  const ring = await inTransaction(mongo, 60_000, (session) =>
    queueDeliveries(mongo, [on, off], { channels, maxAttempts: 6, preferences, now: NOW, session }),
  );
  t.strictSame(
    ring.map(({ _id }) => _id),
    ['on:log', 'on:email', 'off:log'],
  );
  const jobs = mongo.db.collection<Command>(DELIVERIES);
  t.match(await jobs.findOne({ _id: 'off:email' }), {
    status: 'SUPPRESSED',
    attempts: 0,
    result: { reason: 'CHANNEL_DISABLED' },
    settledAt: new Date(NOW),
    live: true,
  });
  const others = await jobs.find({ _id: { $ne: 'off:email' } }).toArray();
  t.strictSame([...new Set(others.map(({ status }) => status))], ['PENDING']);
});
