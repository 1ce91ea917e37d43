import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { runWorkerUntil, startWorker } from '#testing/processes/worker-process.ts';
import {
  freshAttempt,
  graded,
  postGrading,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { type CrashScenario, crashSuite, openLane } from '#testing/suites/crash-suite.ts';
import { until } from '#testing/until.ts';

const GRADING: CrashScenario = {
  name: 'grading',
  status: 'DONE',
  leastPoints: 12,
  post: async (mongo) => postGrading(mongo, await storeAttempt(mongo, SUBMITTED)),
  async check(t, { mongo }, { subject }) {
    const attempt = await attempts(mongo).findOne({ _id: subject });
    const totals = { totalScore: 1, correctCount: 1, wrongCount: 0, pendingManualCount: 1 };
    t.match(attempt, { status: 'GRADED', ...totals, eventSeq: 2, tally: { scored: true, graded: 1 } });
    t.strictSame(
      attempt?.events.map(({ type }) => type),
      ['START', 'SUBMIT'],
      'one terminal event',
    );
    const notices = await mongo.db.collection(NOTICES).find({ 'body.attemptId': subject }).toArray();
    t.equal(notices.length, 2, 'one pair of notices');
  },
};

/** Their claims, reads and ends share commands. The worker has slots for commands of earlier deaths too, and may die with one of them again. */
const THREE_AT_ONCE: CrashScenario = { ...GRADING, name: 'grading of three at once', together: 3, spent: [1, 4] };

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
    const rows = await attempts(mongo)
      .find(released, { projection: { _id: 1 } })
      .toArray();
    t.equal(rows.length, CLASS);
    const notices = await mongo.db.collection(NOTICES).find({ 'body.examId': examId }).toArray();
    t.equal(notices.length, CLASS * 2, 'each attempt announced once');
  },
};

t.test('a worker killed at any await of its run loses no grade and releases none twice', (t) =>
  crashSuite(t, {
    grading: [GRADING, THREE_AT_ONCE],
    resultsrelease: [RELEASE],
  }),
);

t.test('a command that kills every worker ends dead and delays no other command', async (t) => {
  const { mongo, env } = await openLane(t);
  const poison = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 2 });
  const others: Command[] = [];
  for (let n = 0; n < 5; n++) others.push(await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const read = (command: Command) => readCommand(mongo, command);
  let deaths = 0;
  while ((await read(poison))?.status === 'PENDING') {
    const kills = { commandId: poison._id, harm: 'kill' } as const;
    const worker = startWorker(t, 'grading', { ...env, WORKER_CONCURRENCY: '2' }, kills);
    const how = await runWorkerUntil(worker, async () => (await read(poison))?.status === 'DEAD');
    if (how === 'SIGKILL') deaths += 1;
  }
  t.equal(deaths, 2, 'two workers died');
  t.match(await read(poison), { status: 'DEAD', attempts: 2, lastError: { fingerprint: 'WorkerLost' } });
  const healthy = startWorker(t, 'grading', env);
  for (const other of others) await until('the others are graded', async () => (await read(other))?.status === 'DONE');
  await healthy.stop();
  t.match(await attempts(mongo).findOne({ _id: poison.subject }), { status: 'SUBMITTED' });
  t.equal(await mongo.db.collection(NOTICES).countDocuments({ 'body.attemptId': poison.subject }), 0);
});

/** Returns the fields of a graded attempt that a fresh attempt would overwrite. */
function keep({ status, answers, exam, submittedAt, submittedBy, totalScore }: Attempt): Partial<Attempt> {
  return { status, answers, exam, submittedAt, submittedBy, totalScore };
}
