import t from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { accounts } from '#infra/mongo/auth/collections.ts';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { findGenerationById, releaseGeneration } from '#infra/mongo/classifier/generations.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newEvent } from '#shared/notification/event.ts';
import { testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import {
  graded,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-commands.ts';
import { postJob, postSettlement } from '#testing/stored/stored-model-work.ts';
import { sampleFanOut } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

// Each test plants what an incident leaves behind. The first five lines of the command have to name it.

const mongo = await openTestMongo(t);
const grading = makeActor('grading', testWorkerDeps(mongo));
const REDIS_URL = requiredEnv('REDIS_URL');

/** Returns the summary: the lines before the table. */
async function summary(wanted: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const { code, out, err } = await callExamhall(mongo, ['trace', wanted], { env: { REDIS_URL, ...env } });
  t.equal(code, 0, err);
  const [head = '', ...lines] = out.split('\n');
  t.ok(head.startsWith('attempt') || head.includes(wanted.replace(/^\w+:/, '')), head);
  const end = lines.indexOf('');
  t.ok(end >= 0 && end <= 4, 'the summary has at most five lines');
  return lines.slice(0, end).join('\n');
}

/** Replaces the live workers. */
async function workers(...rows: (Partial<WorkerRow> & { actor: string })[]): Promise<void> {
  const table = mongo.db.collection<WorkerRow>(WORKERS);
  await table.deleteMany({});
  for (const row of rows) {
    await table.insertOne(workerRow(row.actor, { seenAt: new Date(Date.now() + 60_000), ...row }));
  }
}

async function change(mailbox: string, id: string, fields: Partial<Command>): Promise<void> {
  const { matchedCount } = await mongo.db.collection<Command>(mailbox).updateOne({ _id: id }, { $set: fields });
  t.equal(matchedCount, 1);
}

/** Stores a graded attempt with both notices. */
async function noticed(): Promise<{ attempt: Attempt; student: string; parent: string }> {
  const attempt = await storeAttempt(mongo, { ...graded(), pendingManualCount: 0 });
  const rows = gradeNotices(attempt);
  await inTransaction(mongo, 60_000, (session) =>
    queueNotices(mongo, session, rows, { maxAttempts: 30, now: Date.now() - 2_000 }),
  );
  const [student = '', parent = ''] = rows.map(({ sourceEventId }) => sourceEventId);
  return { attempt, student, parent };
}

const DONE = { settledAt: new Date(), result: { recipients: 1 } } as const;

t.test('no worker: the grading is due, and no process claims it', async (t) => {
  await workers({ actor: 'gradenotices' });
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  t.match(
    await summary(attempt._id),
    /^stuck: not graded: no live `grading` worker; 1 command due since \d+ s; scale `grading`$/,
  );
  t.match(await summary(`exam:${attempt.examId}`), /^stuck: not graded: no live `grading` worker/);
  t.match(await summary(`student:${attempt.studentId}`), /^stuck: not graded: no live `grading` worker/);
});

t.test('dead grading: the command has used its attempts', async (t) => {
  await workers({ actor: 'grading' });
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const command = await postGrading(mongo, attempt, { maxAttempts: 1 });
  const failing = withStep(grading, () => Promise.reject(new Error('the disk is full')));
  t.equal(await runCommand(testKernel(mongo), failing, command), 'dead');
  const said = await summary(attempt._id);
  t.match(said, /^stuck: not graded: dead after 1 attempts: the disk is full; .*examhall dead replay /);
  t.ok(said.includes(command._id));
  t.equal(await summary(command._id), said, 'the id of the command leads to the same');
});

t.test('muted: the notification service did not notify the student', async (t) => {
  await workers({ actor: 'gradenotices' });
  const { attempt, student, parent } = await noticed();
  for (const id of [student, parent]) await change(NOTICES, id, { ...DONE, status: 'DELIVERED' });
  const { studentId: userId } = attempt;
  const fanOut = sampleFanOut({ rows: 0, event: { sourceService: 'attempt-service', sourceEventId: student } });
  const facts = { id: fanOut.fanOutId, now: new Date(), created: 0, organizationId: null };
  const event = newEvent(
    { sourceService: 'attempt-service', sourceEventId: student, targetUserIds: [userId] },
    { ...facts, suppressed: [{ userId, reason: 'MUTED' }] },
  );
  await insertFanOut(mongo, { ...fanOut, event });
  const why = 'dropped: not notified: the user has muted notifications';
  for (const wanted of [attempt._id, student, fanOut.fanOutId, `user:${userId}`]) t.equal(await summary(wanted), why);
});

t.test('no parents: the profile service knows none', async (t) => {
  await workers({ actor: 'gradenotices' });
  const { attempt, student, parent } = await noticed();
  await change(NOTICES, student, { ...DONE, status: 'DELIVERED' });
  await change(NOTICES, parent, { ...DONE, status: 'DELIVERED', result: { recipients: 0 } });
  t.match(await summary(attempt._id), /^dropped: parents not notified: the profile service knows no parents/);
});

t.test('profile service unset: notices to parents wait', async (t) => {
  await workers({ actor: 'gradenotices', queues: ['gradenotices:student'] });
  const { attempt, student } = await noticed();
  await change(NOTICES, student, { ...DONE, status: 'DELIVERED' });
  t.equal(
    await summary(attempt._id),
    'stuck: parents not notified: the profile service is not configured; set `PROFILE_SERVICE_URL`',
  );
});

t.test('422: the notification service refuses a notice for good', async (t) => {
  await workers({ actor: 'gradenotices' });
  const { attempt, student, parent } = await noticed();
  const message = 'the notification service answered 422';
  await change(NOTICES, parent, { ...DONE, status: 'DELIVERED' });
  await change(NOTICES, student, {
    status: 'DEAD',
    attempts: 1,
    settledAt: new Date(),
    lastError: {
      fingerprint: 'Error: the notification service answered <n>',
      message,
      at: new Date(),
      code: 'RECEIVER_REFUSED',
      refusal: null,
    },
  });
  t.match(
    await summary(attempt._id),
    /^stuck: student not notified: dead: the notification service answered 422, which is final/,
  );
});

t.test('killed mid-release: another worker goes on when the lease ends', async (t) => {
  await workers({ actor: 'resultsrelease', _id: 'resultsrelease@host:2' });
  const attempt = await storeAttempt(mongo, {
    ...graded({ showResultMode: 'MANUAL' }),
    examId: 'exam-mid-release',
    pendingManualCount: 0,
  });
  const command = await postRelease(mongo, { examId: attempt.examId, sourceEventId: 'release-mid' });
  const leaseEnd = new Date(Date.now() + 60_000);
  await change(COMMANDS, command._id, {
    attempts: 1,
    lockedUntil: leaseEnd,
    nextRunAt: leaseEnd,
    workerId: 'resultsrelease@host:1',
    progress: { afterId: '', updatedAttempts: 100, queuedNotifications: 200 },
  });
  const why =
    /^waits: results not released everywhere: its worker resultsrelease@host:1 was lost; another goes on when the lease/m;
  for (const wanted of [attempt._id, command._id, 'exam:exam-mid-release', 'release-mid'])
    t.match(await summary(wanted), why);
});

t.test('late handoff: it waits for the grade, whose worker is missing', async (t) => {
  await workers({ actor: 'essayhandoff' });
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  const handoff = await postHandoff(mongo, attempt);
  await change(COMMANDS, handoff._id, { nextRunAt: new Date(Date.now() + 30_000), fence: 4 });
  const [first = '', second = ''] = (await summary(attempt._id)).split('\n');
  t.match(first, /^stuck: not graded: no live `grading` worker/);
  t.equal(second, 'waits: handoff not applied: the attempt waits for its grade');
});

t.test('circuit open: the job is suspended until a time', async (t) => {
  await workers({ actor: 'classifier' });
  const command = await postJob(mongo);
  const message = 'calls to openai are suspended after repeated failures';
  await change(COMMANDS, command._id, {
    nextRunAt: new Date(Date.now() + 30_000),
    lastError: { fingerprint: 'ProviderFailure', message, at: new Date(), code: 'CIRCUIT_OPEN', refusal: null },
  });
  const why =
    /^waits: job not finished: calls to openai are suspended after repeated failures; next at \S+, in \d+ s; check/;
  t.match(await summary(command.subject), why);
  t.match(await summary('user:teacher-1'), why);
});

t.test('wallet empty: the generation was refused before the model was called', async (t) => {
  await workers();
  const { subject } = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: subject }, { $set: { state: 'MAKING', result: null, commandId: null } });
  await mongo.db.collection(COMMANDS).deleteMany({ subject });
  const row = await findGenerationById(mongo, subject);
  if (row === null) throw new Error('the generation is gone');
  await releaseGeneration(mongo, { row, fence: row.fence }, { rejected: 'AI_WALLET_INSUFFICIENT' });
  t.equal(
    await summary(subject),
    'stuck: no questions generated: the wallet of the organization does not cover the price; top up the wallet',
  );
});

t.test('Redis unavailable: the ring was lost, and the poll runs the command', async (t) => {
  await workers({ actor: 'grading' });
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  const why = await summary(attempt._id, { REDIS_URL: 'redis://127.0.0.1:1' });
  t.equal(
    why,
    'waits: not graded: Redis does not answer or stores no rings; the poll runs it within a second; check Redis',
  );
  t.match(await summary(attempt._id), /^runs: not graded: due since \d+ s; a live worker polls the queue$/);
});

t.test('suspended account: its requests are refused', async (t) => {
  await workers();
  const { account, session } = await storeSignedIn(mongo);
  await accounts(mongo).updateOne({ _id: account._id }, { $set: { status: 'SUSPENDED' } });
  const why =
    /^stuck: account refused: an operator has suspended the account; its requests are refused with AUTH_ACCOUNT_DISABLED/;
  for (const wanted of [account._id, session._id, `user:${account._id}`]) t.match(await summary(wanted), why);
  const acts = await operatorAudit(mongo)
    .find({ subject: await tombstoneId(mongo, account._id) })
    .toArray();
  t.match(
    acts,
    [{ action: 'account.trace', operator: 'an', reason: 'none given' }],
    'one row of the audit within an hour',
  );
});

t.test('a trace of nothing is an error, and one of a healthy object states it', async (t) => {
  await workers({ actor: 'grading' });
  const unknown = await callExamhall(mongo, ['trace', 'no-such-id'], { env: { REDIS_URL } });
  t.match(unknown, { code: 1, out: '', err: 'error: nothing is stored under id no-such-id\n' });
  for (const words of [[], ['a', 'b'], ['student:'], ['']]) {
    const refused = await callExamhall(mongo, ['trace', ...words], { env: { REDIS_URL } });
    t.match(refused, { code: 2, out: '' }, words.join());
  }
  const attempt = await storeAttempt(mongo, { deadlineAt: null });
  const { out } = await callExamhall(mongo, ['trace', attempt._id], { env: { REDIS_URL } });
  t.match(out, new RegExp(`^attempt ${attempt._id}: \\d+ lines?; nothing is held up\\n`));
  const { out: json } = await callExamhall(mongo, ['trace', attempt._id, '--json'], { env: { REDIS_URL } });
  t.match(JSON.parse(json), { subject: 'attempt', verdicts: [], cut: [], nextCursor: null });
});

t.test(
  'an exam without a release waits for it if it shows results by hand, and is not held up otherwise',
  async (t) => {
    await workers({ actor: 'grading' });
    const byHand = await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId: 'exam-by-hand' });
    t.match(
      await summary(`exam:${byHand.examId}`),
      /^waits: results not visible: the results are not released, .*; let the exam service release them$/,
    );
    await storeAttempt(mongo, { ...graded({ showResultMode: 'IMMEDIATE' }), examId: 'exam-at-once' });
    const { out } = await callExamhall(mongo, ['trace', 'exam:exam-at-once'], { env: { REDIS_URL } });
    t.equal(out, 'exam exam-at-once: 0 lines; nothing is held up\n');
  },
);

t.test('a terminal shows the row of the audit as a short line, and anything else gets the whole row', async (t) => {
  const errOf = async (userId: string, terminal: boolean) => {
    const options = { terminal, env: { REDIS_URL } };
    await storeAttempt(mongo, { studentId: userId, deadlineAt: null });
    return (await callExamhall(mongo, ['trace', `student:${userId}`], options)).err;
  };
  t.match(await errOf('student-on-terminal', true), /^audit \d+: account\.trace by an\n$/);
  t.match(JSON.parse(await errOf('student-in-pipe', false)), { msg: 'operator act', action: 'account.trace' });
});

t.test('examhall queues shows that no worker is alive while commands are due', async (t) => {
  await workers({ actor: 'gradenotices' });
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  const { out } = await callExamhall(mongo, ['queues']);
  t.match(out, /^grading +.*no worker: scale `grading`$/m);
  t.match(out, /^gradenotices:student +.* 1$/m);
});

t.test('the id of a request leads to what it has caused', async (t) => {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const command = await postGrading(mongo, attempt);
  await mongo.db
    .collection<Command>(COMMANDS)
    .updateOne({ _id: command._id }, { $set: { 'cause.requestId': 'save-42' } });
  const { code, out } = await callExamhall(mongo, ['trace', 'save-42', '--json'], { env: { REDIS_URL } });
  t.equal(code, 0);
  t.match(JSON.parse(out), {
    subject: 'request',
    lines: [{ id: command._id, about: attempt._id, requestId: 'save-42' }],
  });
  t.match(await callExamhall(mongo, ['trace', 'save-43'], { env: { REDIS_URL } }), { code: 1 });
});
