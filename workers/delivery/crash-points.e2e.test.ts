import t from 'tap';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { INTERRUPTED } from '#infra/mongo/notification/delivery-attempts.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const DELIVERY: CrashScenario = {
  name: 'delivery',
  status: 'SENT',
  leastPoints: 20,
  post: (mongo) => postDelivery(mongo, { maxAttempts: 10 }),
  async check(t, { mongo, neighbours }, { _id, subject }) {
    const times = neighbours.notices.get(_id) ?? 0;
    t.ok(times === 1 || times === 2, `the receiver saw it ${times} times under one id`);
    const rows = await deliveryAttempts(mongo)
      .find({ notificationId: subject }, { sort: { _id: 1 } })
      .toArray();
    const statuses = rows.map(({ status }) => status);
    t.equal(statuses.pop(), 'SENT', 'the last delivery attempt succeeded');
    t.ok(statuses.length <= 1 && statuses.every((status) => status === 'FAILED'), `before it: ${statuses}`);
    t.strictSame(
      rows.filter(({ error }) => error !== null).map(({ error }) => error),
      statuses.map(() => INTERRUPTED),
    );
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'delivery', [DELIVERY]),
);
