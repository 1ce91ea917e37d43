import t from 'tap';
import { attempts, regradeLines, regrades } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { examActOrder, type OnAttempt } from '#shared/exam-room/exam-act.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import {
  freshAttempt,
  graded,
  postExtraTime,
  postOrder,
  postRegrade,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

/** Attempts of one act: more than fit in one of its steps. */
const CLASS = 103;

const EXTRA_TIME: CrashScenario = {
  name: 'extra time',
  status: 'DONE',
  leastPoints: 20,
  async post(mongo) {
    const examId = `exam-${newId()}`;
    const rows = Array.from({ length: CLASS }, () => freshAttempt({ examId, deadlineAt: new Date(Date.now() + HOUR) }));
    await attempts(mongo).insertMany(rows);
    return postExtraTime(mongo, { examId, studentIds: [...rows.map(({ studentId }) => studentId), 'absent'] });
  },
  async check(t, { mongo }, { _id, subject: examId }) {
    const command = await mailboxOf(mongo, 'examroom').findOne({ _id });
    t.strictSame(command?.result, { id: _id, minutes: 10, updated: CLASS, remembered: 1 }, 'counts');
    const extended = { examId, extraTime: [_id], extraMinutes: 10, eventSeq: 2, 'events.1.type': 'TIME_EXTENDED' };
    t.equal(await attempts(mongo).countDocuments(extended), CLASS, 'each deadline moved once');
    t.equal(await operatorAudit(mongo).countDocuments({ subject: examId }), 1, 'one row of the audit');
  },
};

const SUBMIT_ALL: CrashScenario = {
  name: 'submit-all',
  status: 'DONE',
  leastPoints: 20,
  async post(mongo) {
    const examId = `exam-${newId()}`;
    await attempts(mongo).insertMany(Array.from({ length: CLASS }, () => freshAttempt({ examId })));
    return postExtraTime(mongo, { examId, kind: 'SUBMIT_ALL', minutes: 0 });
  },
  async check(t, { mongo }, { _id, subject: examId }) {
    const command = await mailboxOf(mongo, 'examroom').findOne({ _id });
    t.strictSame(command?.result, { id: _id, submitted: CLASS }, 'counts');
    const rows = await attempts(mongo).find({ examId, submittedBy: 'TEACHER' }).toArray();
    t.equal(rows.length, CLASS, 'each attempt submitted');
    const gradings = { queue: 'grading', subject: { $in: rows.map((row) => row._id) } } as const;
    t.equal(await mailboxOf(mongo, 'grading').countDocuments(gradings), CLASS, 'one grading each');
    t.equal(await operatorAudit(mongo).countDocuments({ subject: examId }), 1, 'one row of the audit');
  },
};

/** Attempts of a regrade. Each has a statement of its own. */
const REGRADED = 12;

/** Stores the graded attempts of a class whose students have all chosen `a`, and posts an act on a regrade of its exam. */
async function postRegradeOfClass(mongo: Mongo, kind: 'REGRADE' | 'REGRADE_APPLY') {
  const examId = `exam-${newId()}`;
  const one = await storeAttempt(mongo, { ...graded(), examId });
  const others = Array.from({ length: REGRADED - 1 }, () => {
    const { _id, studentId, startKeys, stamp } = freshAttempt();
    return { ...one, _id, studentId, startKeys, stamp };
  });
  await attempts(mongo).insertMany(others);
  return postRegrade(mongo, examId, kind);
}

const REGRADE: CrashScenario = {
  name: 'preview of a regrade',
  status: 'DONE',
  leastPoints: 15,
  post: (mongo) => postRegradeOfClass(mongo, 'REGRADE'),
  async check(t, { mongo }, { subject: examId }) {
    const regrade = await regrades(mongo).findOne({ examId });
    t.match(regrade, { state: 'PREVIEW', attempts: REGRADED, changed: REGRADED, up: 0, down: REGRADED });
    t.equal(
      await regradeLines(mongo).countDocuments({ regradeId: regrade?._id ?? '' }),
      REGRADED,
      'a line of each attempt',
    );
    t.equal(await operatorAudit(mongo).countDocuments({ subject: examId }), 1, 'one row of the audit');
  },
};

const REGRADE_APPLY: CrashScenario = {
  name: 'regrade',
  status: 'DONE',
  leastPoints: 20,
  post: (mongo) => postRegradeOfClass(mongo, 'REGRADE_APPLY'),
  async check(t, { mongo }, { subject: examId }) {
    t.match(await regrades(mongo).findOne({ examId }), { state: 'APPLIED', number: 1 });
    const regraded = {
      examId,
      totalScore: 0,
      eventSeq: 2,
      'events.1.type': 'REGRADED',
      'scoreHistory.1.cause': 'REGRADE',
    };
    t.equal(await attempts(mongo).countDocuments(regraded), REGRADED, 'each attempt graded anew once');
    const notices = { 'body.examId': examId, 'body.regradeId': { $exists: true } };
    t.equal(await mongo.db.collection(NOTICES).countDocuments(notices), 2 * REGRADED, 'each announced once');
    t.equal(await operatorAudit(mongo).countDocuments({ subject: examId }), 1, 'one row of the audit');
  },
};

/** Posts an act of an admin on a graded attempt whose notices wait. */
async function postActOn(mongo: Mongo, kind: 'REOPEN' | 'VOID' | 'RESTORE', change: Partial<Attempt> = {}) {
  const attempt = await storeAttempt(mongo, { ...graded(), ...change });
  const notices = gradeNotices(attempt);
  if (kind !== 'RESTORE') {
    const terms = { maxAttempts: 10, now: Date.now() };
    await inTransaction(mongo, 60_000, (session) => queueNotices(mongo, session, notices, terms));
  }
  return postAct(mongo, kind, attempt);
}

function postAct(mongo: Mongo, kind: OnAttempt['kind'], { _id: attemptId, studentId }: Attempt) {
  const by = { id: 'admin-1', role: 'ADMIN' } as const;
  const body = { kind, attemptId, studentId, by, statedReason: 'the fire alarm', minutes: 10 };
  const id = newId();
  return postOrder(mongo, { ...examActOrder(id, attemptId, body), id });
}

const noticesOf = (mongo: Mongo, attemptId: string) =>
  mongo.db.collection(NOTICES).countDocuments({ 'body.attemptId': attemptId });

const HAND_IN: CrashScenario = {
  name: 'submit by an examiner',
  status: 'DONE',
  leastPoints: 10,
  post: async (mongo) => postAct(mongo, 'SUBMIT', await storeAttempt(mongo)),
  async check(t, { mongo }, { subject }) {
    t.match(await attempts(mongo).findOne({ _id: subject }), { status: 'SUBMITTED', submittedBy: 'TEACHER' });
    t.equal(await mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading', subject }), 1, 'one grading');
    t.equal(await operatorAudit(mongo).countDocuments({ subject }), 1, 'one row of the audit');
  },
};

const REOPEN: CrashScenario = {
  name: 'reopen',
  status: 'DONE',
  leastPoints: 10,
  post: (mongo) => postActOn(mongo, 'REOPEN'),
  async check(t, { mongo }, { subject }) {
    const attempt = await attempts(mongo).findOne({ _id: subject });
    t.match(attempt, { status: 'IN_PROGRESS', round: 2, totalScore: null, eventSeq: 2 });
    t.strictSame(
      attempt?.scoreHistory?.map(({ cause }) => cause),
      ['GRADE', 'REOPEN'],
    );
    t.equal(await noticesOf(mongo, subject), 0, 'the old grade is announced no longer');
    t.equal(await operatorAudit(mongo).countDocuments({ subject }), 1, 'one row of the audit');
  },
};

const VOID: CrashScenario = {
  name: 'void',
  status: 'DONE',
  leastPoints: 10,
  post: (mongo) => postActOn(mongo, 'VOID'),
  async check(t, { mongo }, { subject }) {
    t.match(await attempts(mongo).findOne({ _id: subject }), { voidedBy: 'admin-1', voidedAt: Date, eventSeq: 2 });
    t.equal(await noticesOf(mongo, subject), 0, 'its result is announced no longer');
    t.equal(await operatorAudit(mongo).countDocuments({ subject }), 1, 'one row of the audit');
  },
};

const RESTORE: CrashScenario = {
  name: 'restore',
  status: 'DONE',
  leastPoints: 10,
  post: (mongo) => postActOn(mongo, 'RESTORE', { voidedAt: new Date(), voidedBy: 'admin-1', voidReason: 'a mistake' }),
  async check(t, { mongo }, { subject }) {
    t.match(await attempts(mongo).findOne({ _id: subject }), { voidedAt: null, status: 'GRADED', eventSeq: 2 });
    t.equal(await noticesOf(mongo, subject), 2, 'announced once');
    t.equal(await operatorAudit(mongo).countDocuments({ subject }), 1, 'one row of the audit');
  },
};

t.test('a worker killed at any await of an act does it once, and on every attempt', (t) =>
  crashSuite(t, { examroom: [EXTRA_TIME, SUBMIT_ALL, HAND_IN, REOPEN, VOID, RESTORE, REGRADE, REGRADE_APPLY] }),
);
