import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { INTERRUPTED } from '#infra/mongo/notification/delivery-attempts.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices, type NoticeRecipient } from '#shared/attempt/notices.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import {
  freshAttempt,
  graded,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import { generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { finishedOnce, postJob } from '#testing/stored/stored-jobs.ts';
import type { CrashScenario } from './crash-scenario.ts';
import { upkeepScenarios } from './upkeep-scenarios.ts';

/** Attempts of one release: more than fit in one of its chunks. */
const CLASS = 103;

/** Returns all scenarios. */
export function crashScenarios(): CrashScenario[] {
  return [
    release(),
    grading(),
    handoff(),
    notice('notice to the parents', 'PARENT'),
    notice('notice to the student', 'STUDENT'),
    accountNotice(),
    ...upkeepScenarios(),
    delivery(),
    settlement(),
    classification(),
  ];
}

function grading(): CrashScenario {
  return {
    name: 'grading',
    actor: 'grading',
    status: 'DONE',
    leastPoints: 12,
    post: async (mongo) => postGrading(mongo, await storeAttempt(mongo, SUBMITTED)),
    async check(t, { mongo }, { subject }) {
      const attempt = await attempts(mongo).findOne({ _id: subject });
      const totals = { totalScore: 1, correctCount: 1, wrongCount: 0, pendingManualCount: 1 };
      t.match(attempt, { status: 'GRADED', ...totals, eventSeq: 2, tally: { scored: true, graded: 1 } });
      t.strictSame(eventTypes(attempt), ['START', 'SUBMIT'], 'one terminal event');
      t.equal(await noticeRows(mongo, { 'body.attemptId': subject }), 2, 'one pair of notices');
    },
  };
}

function handoff(): CrashScenario {
  return {
    name: 'handoff',
    actor: 'essayhandoff',
    status: 'DONE',
    leastPoints: 10,
    post: async (mongo) => postHandoff(mongo, await storeAttempt(mongo, graded())),
    async check(t, { mongo }, { subject }) {
      const attempt = await attempts(mongo).findOne({ _id: subject });
      const totals = { totalScore: 2.5, correctCount: 1, wrongCount: 1, pendingManualCount: 0 };
      t.match(attempt, { ...totals, eventSeq: 2, answers: { q1: { score: 1.5 } } });
      t.strictSame(eventTypes(attempt), ['START', 'ESSAY_GRADE_HANDOFF'], 'applied once');
    },
  };
}

function release(): CrashScenario {
  return {
    name: 'release',
    actor: 'resultsrelease',
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
      t.equal(await noticeRows(mongo, { 'body.examId': examId }), CLASS * 2, 'each attempt announced once');
    },
  };
}

function notice(name: string, recipient: NoticeRecipient): CrashScenario {
  const queue: Queue = recipient === 'STUDENT' ? 'gradenotices:student' : 'gradenotices:parent';
  return {
    name,
    actor: 'gradenotices',
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

function accountNotice(): CrashScenario {
  return {
    name: 'notice to the owner of an account',
    actor: 'accountnotices',
    status: 'DELIVERED',
    leastPoints: 6,
    post: (mongo) => postAccountNotice(mongo),
    async check(t, { neighbours }, { _id }) {
      const times = neighbours.notices.get(_id) ?? 0;
      // A worker that was killed after the answer and before its settlement sends again, under the same id.
      t.ok(times === 1 || times === 2, `the receiver saw it ${times} times under one id`);
    },
  };
}

function delivery(): CrashScenario {
  return {
    name: 'delivery',
    actor: 'delivery',
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
}

function classification(): CrashScenario {
  return {
    name: 'classification',
    actor: 'classifier',
    status: 'DONE',
    leastPoints: 25,
    post: (mongo) => postJob(mongo),
    async check(t, { mongo }, { subject }) {
      t.equal(await finishedOnce(mongo, subject), 1, 'every batch is stored and counted once');
      const job = await findJob(mongo, subject);
      t.match(job, { open: false, error: null, counts: { succeeded: 7, failed: 0, batchesDone: 2 } });
    },
  };
}

function settlement(): CrashScenario {
  return {
    name: 'settlement',
    actor: 'settlement',
    status: 'DONE',
    leastPoints: 20,
    post: (mongo) => postSettlement(mongo),
    async check(t, { mongo, neighbours: { ledger } }, { subject }) {
      const row = await generationOf(mongo, { subject });
      t.match(row, { state: 'SETTLED', usageConsumed: true });
      const keys = ownerKeysOf(row._id);
      // A worker that was killed after an owner's answer and before its own write calls again, under the same key.
      for (const entry of [ledger.consumed.get(keys.usage), ledger.debits.get(keys.debit)]) {
        t.ok(entry?.times === 1 || entry?.times === 2, `${entry?.times} calls under one key`);
      }
      const own = [...ledger.debits.values()].filter(({ organizationId }) => organizationId === row.organizationId);
      t.match(own, [{ amount: row.charge?.credits }], 'one debit');
      const held = await generationHolds(mongo).findOne({ _id: row.organizationId });
      t.strictSame(held?.holds ?? [], [], 'the hold is removed');
    },
  };
}

/** Returns the fields of a graded attempt that a fresh attempt would overwrite. */
function keep({ status, answers, exam, submittedAt, submittedBy, totalScore }: Attempt): Partial<Attempt> {
  return { status, answers, exam, submittedAt, submittedBy, totalScore };
}

function eventTypes(attempt: Attempt | null): string[] | undefined {
  return attempt?.events.map((event) => event.type);
}

async function noticeRows(mongo: Mongo, filter: Record<string, string>): Promise<number> {
  return (
    await mongo.db
      .collection(NOTICES)
      .find(filter, { projection: { _id: 1 } })
      .toArray()
  ).length;
}
