import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { newId } from '#shared/kernel/ids.ts';
import { freshAttempt, graded, postRelease } from '#testing/stored/stored-attempts.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

/** Attempts of one release: more than fit in one of its chunks. */
const CLASS = 103;

const RELEASE: CrashScenario = {
  name: 'release',
  status: 'DONE',
  leastPoints: 20,
  async post(mongo) {
    const examId = `exam-${newId()}`;
    const hidden = freshAttempt(graded({ showResultMode: 'MANUAL' }));
    const rows = Array.from({ length: CLASS }, () => ({ ...hidden, ...freshAttempt({ examId }), ...keep(hidden) }));
    await attempts(mongo).insertMany(rows);
    return postRelease(mongo, { examId });
  },
  async check(t, { mongo }, { _id, subject: examId }) {
    const command = await mailboxOf(mongo, 'resultsrelease').findOne({ _id });
    t.strictSame(command?.result, { updatedAttempts: CLASS, queuedNotifications: CLASS * 2 }, 'counts');
    const released = { examId, 'exam.resultsReleasedAt': { $ne: null } };
    t.equal(
      (
        await attempts(mongo)
          .find(released, { projection: { _id: 1 } })
          .toArray()
      ).length,
      CLASS,
    );
    const notices = await mongo.db.collection(NOTICES).find({ 'body.examId': examId }).toArray();
    t.equal(notices.length, CLASS * 2, 'each attempt announced once');
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'resultsrelease', [RELEASE]),
);

/** Returns the fields of a graded attempt that a fresh attempt would overwrite. */
function keep({ status, answers, exam, submittedAt, submittedBy, totalScore }: Attempt): Partial<Attempt> {
  return { status, answers, exam, submittedAt, submittedBy, totalScore };
}
