import t from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices, type NoticeRecipient } from '#shared/attempt/notices.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { freshAttempt, graded } from '#testing/stored/stored-attempts.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'gradenotices', [
    notice('notice to the parents', 'PARENT'),
    notice('notice to the student', 'STUDENT'),
  ]),
);

function notice(name: string, recipient: NoticeRecipient): CrashScenario {
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
      const times = neighbours.notices.get(_id) ?? 0;
      // A worker that was killed after the answer and before its settlement sends again, under the same id.
      t.ok(times === 1 || times === 2, `the receiver saw it ${times} times under one id`);
    },
  };
}
