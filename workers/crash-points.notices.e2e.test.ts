import t, { type Test } from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { INTERRUPTED } from '#infra/mongo/notification/delivery-attempts.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices, type NoticeRecipient } from '#shared/attempt/notices.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import { freshAttempt, graded } from '#testing/stored/stored-attempts.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const ACCOUNT_NOTICE: CrashScenario = {
  name: 'notice to the owner of an account',
  status: 'DELIVERED',
  leastPoints: 6,
  post: (mongo) => postAccountNotice(mongo),
  async check(t, { neighbours }, { _id }) {
    checkArrival(t, neighbours, _id);
  },
};

const DELIVERY: CrashScenario = {
  name: 'delivery',
  status: 'SENT',
  leastPoints: 20,
  post: (mongo) => postDelivery(mongo, { maxAttempts: 10 }),
  async check(t, { mongo, neighbours }, { _id, subject }) {
    checkArrival(t, neighbours, _id);
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

t.test('a worker killed at any await of its run loses no notice and doubles none', (t) =>
  crashSuite(t, {
    accountnotices: [ACCOUNT_NOTICE],
    delivery: [DELIVERY],
    gradenotices: [gradeNotice('notice to the parents', 'PARENT'), gradeNotice('notice to the student', 'STUDENT')],
  }),
);

function gradeNotice(name: string, recipient: NoticeRecipient): CrashScenario {
  const queue: Queue = recipient === 'STUDENT' ? 'gradenotices:student' : 'gradenotices:parent';
  return {
    name,
    status: 'DELIVERED',
    leastPoints: recipient === 'STUDENT' ? 6 : 8,
    async post(mongo) {
      const wanted = gradeNotices(freshAttempt(graded())).filter((row) => row.recipient === recipient);
      const options = { maxAttempts: 10, now: Date.now() - 1_000 };
      await inTransaction(mongo, 60_000, (session) => queueNotices(mongo, session, wanted, options));
      return (await mailboxOf(mongo, queue).findOne({ _id: wanted[0]?.sourceEventId ?? '' })) as Command;
    },
    async check(t, { neighbours }, { _id }) {
      checkArrival(t, neighbours, _id);
    },
  };
}

/** A worker that was killed after the answer and before its settlement sends again, under the same id. */
function checkArrival(t: Test, neighbours: Neighbours, id: string): void {
  const times = neighbours.notices.get(id) ?? 0;
  t.ok(times === 1 || times === 2, `the receiver saw it ${times} times under one id`);
}
