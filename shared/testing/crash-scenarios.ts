import type { Test } from 'tap';
import type { Attempt } from '../attempt/attempt.ts';
import { gradeNotices, type NoticeRecipient } from '../attempt/notices.ts';
import { attempts } from '../infra/mongo/attempt/collections.ts';
import { queueNotices } from '../infra/mongo/attempt/queue-notices.ts';
import type { Mongo } from '../infra/mongo/connect.ts';
import { mailboxOf, NOTICES } from '../infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '../infra/mongo/transaction.ts';
import type { Command, CommandStatus, Queue } from '../kernel/command.ts';
import { newId } from '../kernel/ids.ts';
import type { Neighbours } from './neighbours.ts';
import {
  freshAttempt,
  graded,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from './stored-attempts.ts';

/** A kind of command whose worker is killed at every point, and what must be true once another has finished it. */
export interface CrashScenario {
  name: string;
  actor: string;
  status: CommandStatus;
  /** How many points a run has at the least; fewer would mean that the rig sees nothing. */
  leastPoints: number;
  post(mongo: Mongo): Promise<Command>;
  check(t: Test, world: { mongo: Mongo; neighbours: Neighbours }, command: Command): Promise<void>;
}

/** Attempts of one release: more than fit in one of its chunks. */
const CLASS = 103;

export function crashScenarios(): CrashScenario[] {
  return [
    release(),
    grading(),
    handoff(),
    notice('notice to the parents', 'PARENT'),
    notice('notice to the student', 'STUDENT'),
  ];
}

function grading(): CrashScenario {
  return {
    ...{ name: 'grading', actor: 'grading', status: 'DONE', leastPoints: 12 },
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
    ...{ name: 'handoff', actor: 'essayhandoff', status: 'DONE', leastPoints: 10 },
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
    ...{ name: 'release', actor: 'resultsrelease', status: 'DONE', leastPoints: 20 },
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
    ...{ name, actor: 'gradenotices', status: 'DELIVERED', leastPoints: recipient === 'STUDENT' ? 6 : 8 },
    async post(mongo) {
      const wanted = gradeNotices(freshAttempt(graded()), null).filter((row) => row.recipient === recipient);
      const options = { maxAttempts: 10, now: Date.now() - 1_000 };
      await inTransaction(mongo, 5_000, (session) => queueNotices(mongo, session, wanted, options));
      return (await mailboxOf(mongo, queue).findOne({ _id: wanted[0]?.sourceEventId ?? '' })) as Command;
    },
    async check(t, { neighbours }, { _id }) {
      const times = neighbours.notices.get(_id) ?? 0;
      // Killed between the answer and its own note of it, a worker sends again; the receiver tells by the same id.
      t.ok(times === 1 || times === 2, `the receiver saw it ${times} times under one id`);
    },
  };
}

/** The parts of a graded attempt that a fresh one would overwrite. */
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
