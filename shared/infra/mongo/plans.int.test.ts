import t from 'tap';
import { receiveHandoff, receiveRelease } from '#api/attempt/intake.ts';
import { listOwnAttempts, readAttempt, summarizeAttempts } from '#api/attempt/queries.ts';
import { saveOneAnswer } from '#api/attempt/save-answer.ts';
import { startAttempt } from '#api/attempt/start.ts';
import { postEvent, submitAttempt } from '#api/attempt/submit.ts';
import { previewGeneration } from '#api/classifier/previews.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { allEvents } from '#infra/mongo/attempt/events.ts';
import { findAccountByEmail, importAccount, insertAccount } from '#infra/mongo/auth/accounts.ts';
import {
  learnPair,
  pairOf,
  recordPairFailure,
  recordPairSuccess,
  refundPairAttempt,
  reservePairAttempt,
} from '#infra/mongo/auth/known-pairs.ts';
import { makeAdmin, setPassword, setStatus, signOut, unlockAccount } from '#infra/mongo/auth/operator.ts';
import { changePassword, upgradePassword } from '#infra/mongo/auth/passwords.ts';
import {
  endOtherSessions,
  endSession,
  findRefresh,
  liveSessions,
  newestSecurityEvents,
  openSession,
  reportReuse,
  rotateToken,
} from '#infra/mongo/auth/sessions.ts';
import {
  clearFailures,
  recordFailure,
  recordSuccess,
  refundLoginAttempt,
  reserveLoginAttempt,
  throttleKey,
} from '#infra/mongo/auth/throttle.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import { chosenLetters, findCommand, firstPlace, letterPage, replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { freeSlot, nextSuspect, takeSlot } from '#infra/mongo/mailbox/suspects.ts';
import { listBulks, stopBulk } from '#infra/mongo/operations/bulk-acts.ts';
import { actsOnLetter } from '#infra/mongo/operations/dead-acts.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { DAY } from '#shared/kernel/time.ts';
import { testKernel, testWorker, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { callOf, inProcessDoor, startedAttempt } from '#testing/doors/in-process-door.ts';
import { generationCall, previewDoor, scriptedModels } from '#testing/doors/preview-door.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { claimsOf, freshAccount, freshSession, freshToken, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postBulkAct } from '#testing/stored/stored-dead-letters.ts';
import {
  finishedOnce,
  generationOf,
  postJob,
  postSettlement,
  unlimitedSlots,
} from '#testing/stored/stored-model-work.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from '#workers/settlement/actor.ts';
import { postRecurringCommands } from '#workers/worker-process.ts';
import { batchErrors } from './classifier/job-batches.ts';
import {
  cancelJob,
  findOpenJob,
  findOwnJob,
  findSelection,
  findSelections,
  listJobs,
  retryJob,
  summarizeJobs,
} from './classifier/jobs.ts';
import type { Mongo } from './connect.ts';
import { liveWorkers } from './live-workers.ts';

const OWNER = { actorId: 'teacher-1', organizationId: 'org-1' };

const QUESTIONS = [
  {
    questionId: 'number',
    score: 1,
    type: 'NUMERIC',
    content: '1 + 1',
    contentText: '1 + 1',
    options: [],
    scoringRule: { mode: 'NUMERIC' },
    answerKey: { numericAnswers: [{ value: 2 }] },
  },
  {
    questionId: 'essay',
    score: 2,
    type: 'ESSAY',
    content: 'Sông',
    contentText: 'Sông',
    options: [],
    scoringRule: { mode: 'ESSAY' },
    answerKey: {},
  },
];

t.test('no query of the attempt service and its mailboxes scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  // A planner may scan a collection that is almost empty.
  for (let n = 0; n < 20; n++) await storeAttempt(mongo, { deadlineAt: null });
  await runAnExam(t, mongo);
  await noneScans(t, mongo, seen, 35);
});

t.test('no query of the auth service scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  for (let n = 0; n < 20; n++) await storeSignedIn(mongo);
  await comeAndGo(mongo);
  await noneScans(t, mongo, seen, 12);
});

t.test('no filter of classification jobs scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const actor = classifierActor(testWorkerDeps(mongo));
  await postRecurringCommands(mongo, actor, Date.now() - 1_000);
  const commands = [await postJob(mongo), await postJob(mongo), await postJob(mongo)];
  const [done, stopped, open] = commands.map(({ subject }) => subject);
  const sweep = await findLive(mongo, 'classifier', 'classifier:lost-jobs');
  for (const command of [commands[0], sweep]) if (command) await runCommand(testKernel(mongo), actor, command);
  t.equal(await finishedOnce(mongo, done ?? ''), 1);
  await cancelJob(mongo, stopped ?? '', OWNER);
  await retryJob(mongo, stopped ?? '', OWNER, unlimitedSlots(), (body) =>
    newCommand({ queue: 'classifier', key: 'again', subject: body.jobId, body, maxAttempts: 3, now: Date.now() }),
  );
  const job = await findOwnJob(mongo, open ?? '', OWNER);
  t.equal((await findOpenJob(mongo, job?.openKey ?? ''))?._id, open);
  await findSelection(mongo, open ?? '');
  await findSelections(mongo, [open ?? '']);
  await batchErrors(mongo, open ?? '');
  for (const status of [null, 'COMPLETED'] as const) await listJobs(mongo, { ...OWNER, status, limit: 5, offset: 0 });
  await summarizeJobs(mongo, { open: 5, failures: 5 });
  await noneScans(t, mongo, seen, 20);
});

t.test('no filter of paid generations scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const owners = await openFakeOwners(t);
  const door = previewDoor(mongo, { owners, models: scriptedModels() });
  const ask = (topic: string) => previewGeneration(door, generationCall({ topic }));
  for (let n = 0; n < 10; n++) await ask(`topic ${n}`);
  owners.ledger.balance = 0;
  for (const topic of ['topic 1', 'refused']) await ask(topic);
  owners.fault = ({ path }) => (path.endsWith('/consume') ? 'away' : undefined);
  owners.ledger.balance = 1_000;
  for (let n = 0; n < 2; n++) await ask('pending');
  owners.fault = null;
  const env = { ...owners.env, AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' };
  const actor = settlementActor(testWorkerDeps(mongo, env));
  const command = await postSettlement(mongo);
  await runCommand(testKernel(mongo), actor, command);
  t.match(await generationOf(mongo, command), { state: 'SETTLED' });
  await noneScans(t, mongo, seen, 10);
});

/** Runs every operation of the auth service and of its operators. */
async function comeAndGo(mongo: Mongo): Promise<void> {
  const now = Date.now();
  const maxAgeMs = 90 * DAY;
  const act = { operator: 'op', reason: 'a test', now };
  const account = freshAccount({ phone: '+84912345678', legacyId: 'L-1' });
  const accountId = account._id;
  const login = freshSession(account);
  const taken = freshAccount({ phone: account.phone });
  for (const who of [account, taken]) await insertAccount(mongo, { account: who, ...login }, 5_000);
  await findAccountByEmail(mongo, account.email);
  await findRefresh(mongo, claimsOf(login.token));
  const successor = freshToken(login.session);
  const rotation = { presented: login.token._id, sessionId: login.session._id, successor };
  await rotateToken(mongo, rotation, 5_000);
  await liveSessions(mongo, accountId, { now, maxAgeMs });
  const passwordHash = account.password.hash;
  await openSession(mongo, { ...freshSession(account), passwordHash }, 5_000);
  await endSession(mongo, { accountId, sessionId: 'another', reason: 'ENDED', maxAgeMs });
  await endOtherSessions(mongo, { accountId, keep: login.session._id, reason: 'ENDED' });
  await endOtherSessions(mongo, { accountId, keep: null, reason: 'ENDED' });
  await reportReuse(mongo, login.token, now);
  const to = { scheme: 'bcrypt-sha256', hash: 'new' } as const;
  await changePassword(mongo, { accountId, from: passwordHash, to, keep: 'another', now }, 5_000);
  await upgradePassword(mongo, accountId, 'new', to);

  const key = throttleKey(account.email);
  const reserved = await reserveLoginAttempt(mongo, key, now);
  if (reserved.kind === 'granted') await refundLoginAttempt(mongo, key, reserved.round);
  await recordFailure(mongo, key);
  await recordSuccess(mongo, key);
  await clearFailures(mongo, key);
  const pair = pairOf(account.email, '203.0.113.7');
  await learnPair(mongo, pair, now);
  await reservePairAttempt(mongo, pair, now);
  await refundPairAttempt(mongo, pair, 'another');
  await recordPairFailure(mongo, pair);
  await recordPairSuccess(mongo, pair);

  await importAccount(mongo, { ...freshAccount({ legacyId: 'L-1' }), email: account.email });
  await makeAdmin(mongo, accountId, act);
  await setPassword(mongo, account, to, act);
  await unlockAccount(mongo, { email: account.email, accountId }, act);
  await signOut(mongo, accountId, act);
  await setStatus(mongo, { accountId, status: 'DELETED' }, act);
  await newestSecurityEvents(mongo, accountId, 5);
}

async function runAnExam(t: Parameters<typeof testWorker>[0], mongo: Parameters<typeof testKernel>[0]): Promise<void> {
  const neighbours = await openNeighbours(t as Parameters<typeof openNeighbours>[0]);
  const deps = testWorkerDeps(mongo, { ...neighbours.env, UPKEEP_INTERVAL_MS: '10' });
  const open = (name: string) => {
    const actor = makeActor(name, deps);
    return [testWorker(t, testKernel(mongo, { leaseMs: 300 }), actor, { pollMs: 20 })];
  };
  await postRecurringCommands(mongo, makeActor('upkeep', deps), Date.now());
  open('upkeep');
  open('gradenotices');
  const queues: Queue[] = ['grading', 'essayhandoff', 'resultsrelease'];
  const door = inProcessDoor(mongo, Object.fromEntries(queues.map((queue) => [queue, open(queue)])));

  const exam = {
    id: 'exam-1',
    organizationId: 'org-1',
    title: 'Văn 12',
    status: 'PUBLISHED',
    deliveryMode: 'ONLINE',
    durationMinutes: 90,
    showResultMode: 'MANUAL',
    createdById: 'teacher-1',
  };
  const link = { id: 'link-1', mode: 'GUEST_ALLOWED', active: true, studentLimit: 3 };
  const body = { exam, access: { assigned: false, attemptLimit: 5, link }, questions: QUESTIONS };
  const call = <Body>(sent: Body, attemptId = '', key = 'key-1') =>
    callOf(sent, { examId: 'exam-1', attemptId }, 'student-1', key);
  const ids: string[] = [];
  for (const key of ['key-1', 'key-1', 'alias']) {
    ids.push(startedAttempt(await startAttempt(door, call(body as never, '', key))).id);
  }
  const [id = ''] = ids;
  // A long text, a short one in its place, and a long one again. Then so many saves that events leave the tail.
  for (const textAnswer of ['x'.repeat(5_000), 'short', 'y'.repeat(5_000)]) {
    await saveOneAnswer(door, call({ questionId: 'essay', answer: { textAnswer } }, id));
  }
  for (let n = 0; n < 50; n++)
    await saveOneAnswer(door, call({ questionId: 'number', answer: { textAnswer: '2' } }, id));
  await postEvent(door, call({ type: 'TAB_HIDDEN', metadata: { long: 'z'.repeat(2_000) } } as never, id));
  await submitAttempt(door, call({ source: 'STUDENT' }, id));
  const handoff = { sourceEventId: 'h-1', questionId: 'essay', score: 1, maxScore: 2 };
  await receiveHandoff(
    door,
    call({ ...handoff, sourceService: 'ai-classifier-service', type: 'ai.essay_grade.handoff.v1' } as never, id),
  );
  const release = { sourceService: 'exam-service', type: 'exam.results_released.v1', sourceEventId: 'r-1' };
  await receiveRelease(door, call({ ...release, examId: 'exam-1', releasedAt: '2026-05-04T03:00:00Z' } as never));

  await readAttempt(door, call(undefined, id));
  await listOwnAttempts(door, call(undefined));
  await summarizeAttempts(door);
  const attempt = await findAttempt(mongo, { _id: id, studentId: 'student-1' });
  if (attempt === null) throw new Error('the attempt is gone');
  for await (const event of allEvents(mongo, attempt)) if (event.seq < 0) throw new Error('events begin with 1');
  await until('the notices are delivered', () => neighbours.notices.size === 2);

  const poison = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 1 });
  const throws = withStep(makeActor('grading', deps), () => Promise.reject(new Error('no')));
  await until('it has died here or was graded by the worker', async () => {
    await runCommand(testKernel(mongo), throws, poison);
    return (await findCommand(mongo, poison._id))?.status !== 'PENDING';
  });
  await deadGroups(mongo);
  await deadGroups(mongo, { queue: 'grading' });
  await deadGroups(mongo, { subject: 'a-1' });
  await deadGroups(mongo, { queue: 'grading', since: new Date(0) });
  await chosenLetters(mongo, { queue: 'grading' }, { limit: 5 });
  await queueDepths(mongo, Date.now(), await liveWorkers(mongo, Date.now()));
  const { _id, key } = poison;
  await nextSuspect(mongo, ['grading', 'essayhandoff']);
  await takeSlot(mongo, { _id, queue: 'grading', key }, { workerId: 'w', ms: 1 });
  await freeSlot(mongo, { workerId: 'w' });
  await letterPage(mongo, { cause: 'Error: no' }, firstPlace({}), { limit: 5 });
  const bulk = await postBulkAct(mongo, { act: 'ack', filter: { subject: poison.subject } });
  await listBulks(mongo, 5);
  await actsOnLetter(mongo, poison);
  await runCommand(testKernel(mongo), makeActor('upkeep', deps), bulk);
  await stopBulk(mongo, bulk, { operator: 'op', reason: 'a test', now: Date.now() });
  await replayDead(mongo, poison, { operator: 'op', reason: 'a test', now: Date.now() });
  const lost = faultyMongo(mongo, { method: 'findOneAndUpdate', how: 'lost', times: 1 });
  await runCommand(testKernel(lost.mongo), throws, poison);
}
