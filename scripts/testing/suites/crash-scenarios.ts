import type { Test } from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { generationHolds } from '#infra/mongo/classifier/collections.ts';
import { findJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { NOTICES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { INTERRUPTED } from '#infra/mongo/notification/delivery-attempts.ts';
import { subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { OVERDUE_ATTEMPTS_SWEEP } from '#shared/attempt/commands.ts';
import { gradeNotices, type NoticeRecipient } from '#shared/attempt/notices.ts';
import { UNPAID_GENERATIONS_SWEEP } from '#shared/classifier/commands.ts';
import { ownerKeysOf } from '#shared/classifier/generation.ts';
import type { Command, CommandStatus, Queue } from '#shared/kernel/command.ts';
import type { EventMessage } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import type { BulkBody } from '#shared/operations/bulk-act.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';
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
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import {
  analyticsIds,
  postAnalytics,
  postAudit,
  postMessage,
  postPublish,
  storeSubscription,
} from '#testing/stored/stored-events.ts';
import { generationOf, postSettlement } from '#testing/stored/stored-generations.ts';
import { finishedOnce, postJob } from '#testing/stored/stored-jobs.ts';
import { runCommand } from '#workers/run-command.ts';
import { makeActor } from './actor-subjects.ts';

/** A command whose worker is killed at every point of its run, and a check of the state after another worker has finished it. */
export interface CrashScenario {
  name: string;
  actor: string;
  status: CommandStatus;
  /** Minimum number of points in a run. Fewer would mean that the suite no longer observes the run. */
  leastPoints: number;
  /** Returns whether no worker needs to run the command any more. Default: it is settled. A recurring command never settles. */
  isOver?: (command: Command) => boolean;
  /** True if `post` waits for the open transactions of dead workers. The suite ends them, before the server's own time limit does. */
  waitsForTransactions?: boolean;
  /** Minimum and maximum of the attempts spent in the end. Default: 1 and 2. */
  spent?: readonly [number, number];
  post(mongo: Mongo, world: { neighbours: Neighbours }): Promise<Command>;
  check(t: Test, world: { mongo: Mongo; neighbours: Neighbours }, command: Command): Promise<void>;
}

/** Longest wait until MongoDB ends the transaction of a killed process. */
const TIMEOUT_MS = 60_000;
/** End of a pause that outlasts each test. */
const FAR = new Date(Date.now() + 24 * HOUR);
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
    overdueSweep(),
    bulkReplay(),
    ...reports(),
    ...eventsOut(),
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

function overdueSweep(): CrashScenario {
  return {
    name: 'overdue sweep',
    actor: 'upkeep',
    status: 'PENDING',
    leastPoints: 8,
    waitsForTransactions: true,
    // Each run snoozes the command for the next sweep and refunds the attempt.
    isOver: ({ fence, lockedUntil }) => fence > 0 && lockedUntil === null,
    spent: [0, 1],
    async post(mongo) {
      const late = Date.now() + HOUR;
      // Postpone the attempts that killed sweeps left: otherwise each run would have more points than the one before. Inside a
      // transaction, the update meets the dead sweep's open transaction as a conflict and is repeated until that one ends.
      const aside = { $set: { deadlineAt: new Date(late) } };
      await inTransaction(mongo, TIMEOUT_MS, (session) =>
        attempts(mongo).updateMany({ status: 'IN_PROGRESS' }, aside, { session }),
      );
      // Postpone the worker's own recurring sweep, which would run first.
      const recurring = { queue: 'upkeep', key: 'upkeep:overdue-attempts', subject: 'attempts', body: {} } as const;
      await postCommand(mongo, newCommand({ ...recurring, maxAttempts: 10, now: late }));
      return postSweep(mongo, (await storeAttempt(mongo))._id);
    },
    async check(t, { mongo }, { subject }) {
      const gradings = () => mailboxOf(mongo, 'grading').countDocuments({ queue: 'grading', subject });
      const before = await attempts(mongo).findOne({ _id: subject });
      t.equal(
        await gradings(),
        before?.status === 'SUBMITTED' ? 1 : 0,
        'submitted with its grading command, or neither',
      );
      const { deadlineAt } = freshAttempt();
      await attempts(mongo).updateOne({ _id: subject, status: 'IN_PROGRESS' }, { $set: { deadlineAt } });
      const sweep = await postSweep(mongo, `again:${subject}`);
      await runCommand(testKernel(mongo), makeActor('upkeep', testWorkerDeps(mongo)), sweep);
      const attempt = await attempts(mongo).findOne({ _id: subject });
      t.match(attempt, { status: 'SUBMITTED', submittedBy: 'TIMEOUT', submittedAt: deadlineAt });
      t.equal(await gradings(), 1, 'one grading command');
    },
  };
}

/** A worker that is killed replays no letter twice, counts each once, and writes one line of the audit for each. */
function bulkReplay(): CrashScenario {
  const letters = 2;
  return {
    name: 'bulk replay of dead letters',
    actor: 'upkeep',
    status: 'DONE',
    leastPoints: 15,
    // A dead worker's transaction holds the next number of the audit, which the request for the next act needs as well.
    waitsForTransactions: true,
    async post(mongo) {
      await postponeSweeps(mongo);
      const cause = newId();
      for (let n = 0; n < letters; n++) await storeDeadGrading(mongo, cause);
      const filter = { queue: 'grading', cause: `Error: ${cause}` } as const;
      const giveUpAt = performance.now() + TIMEOUT_MS;
      for (;;) {
        try {
          return await postBulkAct(mongo, { filter });
        } catch (error) {
          if (performance.now() >= giveUpAt) throw error;
        }
      }
    },
    async check(t, { mongo }, { _id, body }) {
      const { cause = '' } = (body as BulkBody).filter;
      const replayed = await mailboxOf(mongo, 'grading').find({ 'lastError.fingerprint': cause }).toArray();
      t.strictSame(
        replayed.map(({ replays, status }) => `${replays} ${status}`),
        Array(letters).fill('1 PENDING'),
      );
      const rows = await operatorAudit(mongo).find({ 'lastError.fingerprint': cause }).toArray();
      t.equal(rows.length, letters, 'one line of the audit for each letter');
      const command = await mailboxOf(mongo, 'upkeep:deadletters').findOne({ _id });
      t.strictSame(command?.result, { done: letters, skipped: 0, refused: 0, stopped: false });
      t.equal(await operatorAudit(mongo).countDocuments({ commandId: _id, action: 'dead.bulk-end' }), 1);
    },
  };
}

/** Reports to analytics and audit: each event arrives, at most twice, under one id. */
function reports(): CrashScenario[] {
  const report = (name: string, post: (mongo: Mongo) => Promise<Command>, idsOf: (command: Command) => string[]) => ({
    name,
    actor: 'upkeep',
    status: 'DONE' as const,
    leastPoints: 6,
    async post(mongo: Mongo) {
      await postponeSweeps(mongo);
      return post(mongo);
    },
    async check(t: Test, { neighbours }: { neighbours: Neighbours }, command: Command) {
      for (const id of idsOf(command)) {
        const times = neighbours.analytics.get(id) ?? 0;
        // A worker that was killed between the receiver's reply and its own write sends again.
        t.ok(times === 1 || times === 2, `the receiver saw ${id} ${times} times`);
      }
    },
  });
  return [
    report('report to analytics', postAnalytics, analyticsIds),
    report('report to audit', postAudit, ({ subject }) => [subject]),
  ];
}

/** A message to a subscriber, and the publication of an event to two. */
function eventsOut(): CrashScenario[] {
  const common = { actor: 'upkeep', status: 'DONE', leastPoints: 6 } as const;
  return [
    {
      ...common,
      name: 'publication of an event',
      async post(mongo) {
        await postponeSweeps(mongo);
        if ((await subscriptions(mongo).countDocuments({})) === 0)
          for (let n = 0; n < 2; n++) await storeSubscription(mongo, 'http://127.0.0.1:1', { pausedUntil: FAR });
        return postPublish(mongo);
      },
      async check(t, { mongo }, { _id }) {
        t.equal(await mailboxOf(mongo, 'upkeep:webhooks').countDocuments({ 'body.eventId': _id }), 2, 'one each');
      },
    },
    {
      ...common,
      name: 'message to a subscriber',
      async post(mongo, { neighbours }) {
        await postponeSweeps(mongo);
        const found = await subscriptions(mongo).findOne({});
        const { _id } = found ?? (await storeSubscription(mongo, `${neighbours.url}/events`));
        return postMessage(mongo, _id);
      },
      async check(t, { neighbours }, { body }) {
        const times = neighbours.notices.get((body as EventMessage).eventId) ?? 0;
        t.ok(times === 1 || times === 2, `the subscriber saw it ${times} times under one id`);
      },
    },
  ];
}

/** Postpones the worker's own sweeps: it claims them beside the command, and the points of their runs would end its count. */
async function postponeSweeps(mongo: Mongo): Promise<void> {
  for (const sweep of [OVERDUE_ATTEMPTS_SWEEP, ORPHANED_FAN_OUTS_SWEEP, UNPAID_GENERATIONS_SWEEP])
    await postCommand(mongo, newCommand({ ...sweep, body: {}, maxAttempts: 10, now: Date.now() + HOUR }));
}

async function postSweep(mongo: Mongo, subject: string): Promise<Command> {
  const about = { queue: 'upkeep', key: `upkeep:${subject}`, subject, body: {} } as const;
  // Due before the killed sweeps, whose leases have expired: the worker would run those first, and they would do this one's work.
  return (await postCommand(mongo, newCommand({ ...about, maxAttempts: 10, now: Date.now() - HOUR }))).command;
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
