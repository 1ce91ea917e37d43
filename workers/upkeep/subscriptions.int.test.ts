import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deleteSubscription, openWanted, subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Paper } from '#shared/attempt/question.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { EventMessage, EventType } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { FAILING_MS, type Subscription } from '#shared/operations/subscription.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import {
  MIXED_PAPER,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { postMessage, postPublish, SUBSCRIBER_SECRET, storeSubscription } from '#testing/stored/stored-events.ts';
import { postJob } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { gate, until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';

const mongo = await openTestMongo(t);
const neighbours = await openNeighbours(t);
const own = mailboxOf(mongo, 'upkeep:webhooks');
const deps = () => testWorkerDeps(mongo);
const act = () => ({ operator: 'an', reason: 'a test', now: Date.now() });
/** Runs a command by an actor, as a worker that has just claimed it. */
const run = (actor: string, command: Command, its = deps()) =>
  runCommand(testKernel(mongo), makeActor(actor, its), command);
/** Returns the messages of an event, and the calls that carried it. */
const messages = (eventId: string) => own.find({ 'body.eventId': eventId }).toArray();
const callsOf = (eventId: string) => neighbours.calls.filter(({ body }) => body?.id === eventId);
const stored = ({ _id }: Command) => own.findOne({ _id });
/** Stores the only subscription, at the neighbours' server. */
async function only(overrides: Partial<Subscription> = {}): Promise<Subscription> {
  await subscriptions(mongo).deleteMany({});
  return storeSubscription(mongo, `${neighbours.url}/events`, overrides);
}
const find = ({ _id }: Subscription) => subscriptions(mongo).findOne({ _id });

/** MIXED_PAPER without points. */
const PRACTICE_PAPER: Paper = {
  ...MIXED_PAPER,
  questions: MIXED_PAPER.questions.map((question) => ({ ...question, score: 0 })),
};

/** Returns the event of this type that was published about the subject. */
async function published(type: EventType, subject: string): Promise<Command> {
  const found = await mailboxOf(mongo, 'upkeep:publish').findOne({ subject, 'body.type': type });
  if (found === null) throw new Error(`no ${type} was published`);
  return found;
}

/** Publishes and sends an event to the only subscription. Returns the received body. */
async function received(event: Command): Promise<Record<string, unknown> | null | undefined> {
  t.equal(await run('upkeep', event), 'done');
  const [message] = await messages(event._id);
  if (message === undefined) return undefined;
  t.equal(await run('upkeep', message), 'done');
  return callsOf(event._id)[0]?.body;
}

t.test('a grading is published once, signed, and with its score only if the student sees the result', async (t) => {
  await only();
  for (const showResultMode of ['IMMEDIATE', 'MANUAL'] as const) {
    const { exam } = await storeAttempt(mongo);
    const attempt = await storeAttempt(mongo, { ...SUBMITTED, exam: { ...exam, showResultMode } });
    t.equal(await run('grading', await postGrading(mongo, attempt)), 'done');
    const event = await published('attempt.graded', attempt._id);
    const { _id: attemptId, examId, organizationId, studentId } = attempt;
    const isVisible = showResultMode === 'IMMEDIATE';
    const score = isVisible ? { total: 1, max: 3, pendingManualCount: 1 } : null;
    const about = { attemptId, examId, organizationId, studentId, resultVisible: isVisible, score };
    t.match(await received(event), { id: event._id, type: 'attempt.graded', data: about });
    const [call] = callsOf(event._id);
    const verified = new Webhook(SUBSCRIBER_SECRET).verify(call?.text ?? '', call?.headers as Record<string, string>);
    t.match(verified, { data: about });
    t.equal(call?.headers['webhook-id'], event._id);
    t.notOk('traceparent' in (call?.headers ?? {}), 'a subscriber is no part of the system');
  }
});

t.test(
  'no event has a score that the student did not see at the grading, whatever happens before it is sent',
  async (t) => {
    await only();
    const { exam } = await storeAttempt(mongo);
    const [past, ahead] = [new Date(Date.now() - HOUR), new Date(Date.now() + HOUR)];
    const cases: readonly {
      showResultMode: Attempt['exam']['showResultMode'];
      closeTime: Date | null;
      sees: boolean;
      isReleasedAfter?: true;
      /** Time of a release that comes before the grading. */
      released?: Date;
      isPractice?: true;
    }[] = [
      { showResultMode: 'IMMEDIATE', closeTime: ahead, sees: true },
      { showResultMode: 'AFTER_CLOSE', closeTime: past, sees: true },
      { showResultMode: 'AFTER_CLOSE', closeTime: ahead, sees: false },
      { showResultMode: 'AFTER_CLOSE', closeTime: null, sees: false },
      { showResultMode: 'MANUAL', closeTime: past, sees: false },
      { showResultMode: 'MANUAL', closeTime: null, sees: false, isReleasedAfter: true },
      { showResultMode: 'AFTER_CLOSE', closeTime: ahead, sees: false, isReleasedAfter: true },
      { showResultMode: 'MANUAL', closeTime: null, sees: true, released: past },
      { showResultMode: 'MANUAL', closeTime: null, sees: false, released: ahead },
      { showResultMode: 'AFTER_CLOSE', closeTime: ahead, sees: true, released: past },
      { showResultMode: 'AFTER_CLOSE', closeTime: ahead, sees: false, released: ahead },
      { showResultMode: 'IMMEDIATE', closeTime: null, sees: true, isPractice: true },
      { showResultMode: 'MANUAL', closeTime: null, sees: false, isPractice: true },
      { showResultMode: 'MANUAL', closeTime: null, sees: true, isPractice: true, released: past },
      { showResultMode: 'AFTER_CLOSE', closeTime: ahead, sees: false, isPractice: true, isReleasedAfter: true },
    ];
    for (const { sees, isReleasedAfter = false, released, isPractice = false, ...shown } of cases) {
      const examId = `exam-${newId()}`;
      const paper = isPractice ? PRACTICE_PAPER : MIXED_PAPER;
      const attempt = await storeAttempt(mongo, { ...SUBMITTED, examId, exam: { ...exam, ...shown } }, paper);
      if (released !== undefined) {
        const release = await postRelease(mongo, { examId, releasedAt: released });
        t.equal(await run('resultsrelease', release), 'done');
      }
      t.equal(await run('grading', await postGrading(mongo, attempt)), 'done');
      const event = await published('attempt.graded', attempt._id);
      // A grade by hand and a release between the grading and the message change neither.
      const handoff = isPractice ? { score: 0, maxScore: 0 } : {};
      t.equal(await run('essayhandoff', await postHandoff(mongo, attempt, handoff)), 'done');
      if (isReleasedAfter) t.equal(await run('resultsrelease', await postRelease(mongo, { examId })), 'done');
      const [total, max] = isPractice ? [0, 0] : [1, 3];
      const score = sees ? { total, max, pendingManualCount: 1 } : null;
      const name = JSON.stringify({ ...shown, isReleasedAfter, released, isPractice });
      const body = await received(event);
      t.match(body, { data: { resultVisible: sees, score } }, name);
      if (!sees) t.notMatch(JSON.stringify(body), /totalScore|"total"|"max"|pendingManualCount/, name);
    }
  },
);

t.test('a release is published once for the exam, and a job at its end', async (t) => {
  await only();
  const release = await postRelease(mongo, { examId: 'exam-published' });
  t.equal(await run('resultsrelease', release), 'done');
  const event = await published('results.released', 'exam-published');
  const toAll = { examId: 'exam-published', organizationId: null, students: null };
  t.match(await received(event), { data: { ...toAll, releasedAt: String } });
  const studentIds = ['student-named-1', 'student-named-2'];
  t.equal(await run('resultsrelease', await postRelease(mongo, { examId: 'exam-of-some', studentIds })), 'done');
  const ofSome = await received(await published('results.released', 'exam-of-some'));
  t.match(ofSome, { data: { examId: 'exam-of-some', students: 2 } });
  t.notMatch(JSON.stringify(ofSome), /student-named/);
  const job = await postJob(mongo);
  t.equal(await run('classifier', job), 'done');
  const completed = await received(await published('job.completed', job.subject));
  t.match(completed, { data: { jobId: job.subject, status: 'COMPLETED', succeeded: 7, failed: 0 } });
  const ahead = new Date(Date.now() + HOUR);
  const later = await postRelease(mongo, { examId: 'exam-ahead', releasedAt: ahead });
  t.equal(await run('resultsrelease', later), 'done');
  t.strictSame((await published('results.released', 'exam-ahead')).nextRunAt, ahead, 'not before its time');
});

t.test('only active subscriptions that want the type and the organization receive an event', async (t) => {
  await subscriptions(mongo).deleteMany({});
  const url = `${neighbours.url}/events`;
  const { organizationId } = await storeAttempt(mongo);
  const wanting = [await storeSubscription(mongo, url), await storeSubscription(mongo, url, { organizationId })];
  await storeSubscription(mongo, url, { organizationId: 'another' });
  await storeSubscription(mongo, url, { types: ['job.completed'] });
  await storeSubscription(mongo, url, { state: 'DISABLED' });
  const event = await postPublish(mongo);
  t.equal(await run('upkeep', event), 'done');
  const ids = (await messages(event._id)).map(({ body }) => body.subscriptionId);
  t.strictSame(ids.sort(), wanting.map(({ _id }) => _id).sort());
});

t.test('without a subscription nothing is published, and a change reads the list once in five seconds', async (t) => {
  await subscriptions(mongo).deleteMany({});
  let reads = 0;
  let now = 0;
  const db = new Proxy(mongo.db, {
    get(target, name) {
      if (name === 'collection') reads += 1;
      const value = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const wanted = openWanted({ ...mongo, db }, () => now, captureLog());
  t.notOk((await Promise.all(Array.from({ length: 10 }, () => wanted.wants('attempt.graded')))).includes(true));
  t.equal(reads, 1);
  await only();
  t.notOk(await wanted.wants('attempt.graded'));
  now = 5_000;
  t.ok(await wanted.wants('attempt.graded'));
  t.equal(reads, 2);
  await subscriptions(mongo).deleteMany({});
  const attempt = await storeAttempt(mongo, SUBMITTED);
  t.equal(await run('grading', await postGrading(mongo, attempt)), 'done');
  t.equal(
    await mailboxOf(mongo, 'upkeep:publish').countDocuments({ queue: 'upkeep:publish', subject: attempt._id }),
    0,
  );
});

t.test(
  'after a failure the subscription pauses, its other messages wait unspent, and a success heals it',
  async (t) => {
    const subscription = await only();
    const [first, second] = [await postMessage(mongo, subscription._id), await postMessage(mongo, subscription._id)];
    neighbours.answer = () => ({ status: 503 });
    t.equal(await run('upkeep', first), 'retried');
    neighbours.answer = null;
    t.match(await find(subscription), { failingSince: Date, pausedUntil: Date, state: 'ACTIVE' });
    t.equal(await run('upkeep', second), 'snoozed');
    t.match(await stored(second), { attempts: 0, lastError: null });
    await subscriptions(mongo).updateOne({ _id: subscription._id }, { $set: { pausedUntil: new Date(0) } });
    await mailboxOf(mongo, 'upkeep:webhooks').updateMany({}, { $set: { nextRunAt: new Date(0) } });
    t.equal(await run('upkeep', second), 'done');
    t.match(await find(subscription), { failingSince: null, pausedUntil: null });
    t.equal(await run('upkeep', first), 'done');
    t.equal(callsOf(first.body.eventId).length, 2, 'sent again under the same id');
  },
);

t.test('a receiver that is gone or fails for days is disabled with an alarm', async (t) => {
  for (const [status, failingSince, reason, end] of [
    [410, null, 'GONE', 'done'],
    [500, new Date(Date.now() - FAILING_MS), 'FAILING', 'retried'],
  ] as const) {
    const subscription = await only({ failingSince, pausedUntil: failingSince && new Date(Date.now() - 1_000) });
    const own = deps();
    neighbours.answer = () => ({ status });
    t.equal(await run('upkeep', await postMessage(mongo, subscription._id), own), end);
    neighbours.answer = null;
    t.match(await find(subscription), { state: 'DISABLED', disabledReason: reason });
    t.strictSame(own.alarms, ['subscription_disabled']);
    t.equal(await run('upkeep', await postMessage(mongo, subscription._id)), 'dead', 'listed and replayable');
  }
});

t.test('a subscription that is deleted during a call and before it ends its messages', async (t) => {
  const subscription = await only();
  const [flying, waiting] = [await postMessage(mongo, subscription._id), await postMessage(mongo, subscription._id)];
  const called = gate();
  neighbours.answer = () => {
    called.open();
    return { status: 500 };
  };
  const running = run('upkeep', flying);
  await called.opened;
  t.ok(await deleteSubscription(mongo, subscription._id, act()));
  t.equal(await running, 'retried');
  neighbours.answer = null;
  t.equal(await find(subscription), null, 'the failure does not bring it back');
  await mailboxOf(mongo, 'upkeep:webhooks').updateMany({}, { $set: { nextRunAt: new Date(0) } });
  for (const message of [flying, waiting]) {
    t.equal(await run('upkeep', message), 'done');
    t.match(await stored(message), { status: 'DONE', result: { dropped: 'DELETED' } });
  }
});

/**
 * `listed`: a message of the other receiver is due with those of the one that hangs; otherwise its messages come later. `backlog`: messages
 * that are due to the one that hangs.
 */
async function hangsBeside(t: Test, { listed, backlog = 5 }: { listed: boolean; backlog?: number }): Promise<void> {
  const slow = await only();
  const other = await storeSubscription(mongo, `${neighbours.url}/other`);
  await mailboxOf(mongo, 'upkeep:webhooks').deleteMany({});
  const go = gate();
  const hanging = new Set<string>();
  const real = deps();
  const actor = makeActor('upkeep', real);
  const handler = actor.handlers['upkeep:webhooks'];
  const handlers = {
    'upkeep:webhooks': async (one: Parameters<NonNullable<typeof handler>>[0]) => {
      const { subscriptionId, eventId } = one.command.body as EventMessage;
      if (subscriptionId === slow._id) {
        hanging.add(eventId);
        await go.opened;
      }
      return { kind: 'done', result: { status: 200 } } as const;
    },
  };
  for (let n = 0; n < backlog; n++) await postMessage(mongo, slow._id, { runAt: Date.now() - HOUR });
  const first = listed ? [await postMessage(mongo, other._id)] : [];
  testWorker(t, testKernel(mongo), { ...actor, handlers }, { concurrency: 4, pollMs: 20 });
  t.teardown(go.open);
  await until('the slots of the receiver that hangs are in use', () => hanging.size === 2);
  for (const message of [...first, await postMessage(mongo, other._id), await postMessage(mongo, other._id)])
    await until('the other receiver gets its message', async () => (await stored(message))?.status === 'DONE');
  t.equal(hanging.size, 2);
}

t.test('one receiver that hangs holds half of the slots, and the others go on', async (t) => {
  await t.test('with a message among those of the first read', (t) => hangsBeside(t, { listed: true }));
  await t.test('with later messages alone', (t) => hangsBeside(t, { listed: false }));
  await t.test('beside more messages than one read lists', (t) => hangsBeside(t, { listed: true, backlog: 250 }));
});

t.test('a message about an erased student is dropped and keeps no id', async (t) => {
  const subscription = await only();
  const message = await postMessage(mongo, subscription._id);
  const { studentId = '' } = message.body;
  t.equal((await erasePerson(mongo, studentId, act())).kind, 'erased');
  t.notMatch(JSON.stringify(await stored(message)), studentId);
  // Written after the erasure, under the old student.
  await mailboxOf(mongo, 'upkeep:webhooks').updateOne({ _id: message._id }, { $set: { 'body.studentId': studentId } });
  t.equal(await run('upkeep', message), 'done');
  t.match(await stored(message), { result: { dropped: 'ERASED' } });
  t.notMatch(JSON.stringify(await stored(message)), studentId);
  t.strictSame(callsOf(message.body.eventId), []);
  const event = await postPublish(mongo);
  await erasePerson(mongo, (event.body as { studentId: string }).studentId, act());
  t.equal(await run('upkeep', event), 'done');
  t.strictSame(await messages(event._id), []);
});

t.test('a message that was written while its student was erased leaves no id, however it ends', async (t) => {
  const ends = [
    { name: 'served', end: 'done' },
    { name: 'deleted', end: 'done' },
    { name: 'disabled', end: 'dead' },
    { name: 'out of attempts', end: 'dead' },
  ];
  for (const { name, end } of ends) {
    const subscription = await only(name === 'disabled' ? { state: 'DISABLED' } : {});
    const message = await postMessage(mongo, subscription._id, { maxAttempts: 1 });
    const { studentId = '' } = message.body;
    if (name === 'deleted') await deleteSubscription(mongo, subscription._id, act());
    if (name === 'out of attempts') neighbours.answer = () => ({ status: 503 });
    // Nothing is erased here: an end that finds no erased attempt must forget the student as well.
    t.equal(await run('upkeep', message), end, name);
    neighbours.answer = null;
    t.match(await stored(message), { body: { attemptId: message.subject } }, name);
    t.notMatch(JSON.stringify(await stored(message)), studentId, name);
  }
});

t.test('a dead message is replayed with its student, and dropped once the student is erased', async (t) => {
  for (const isErased of [false, true]) {
    const subscription = await only();
    const message = await postMessage(mongo, subscription._id, { maxAttempts: 1 });
    const { studentId = '', eventId } = message.body;
    neighbours.answer = () => ({ status: 503 });
    t.equal(await run('upkeep', message), 'dead');
    neighbours.answer = null;
    await subscriptions(mongo).updateOne({ _id: subscription._id }, { $set: { pausedUntil: null } });
    const letter = await stored(message);
    if (letter === null) throw new Error('the letter is gone');
    t.ok(await replayDead(mongo, letter, act()));
    if (isErased) await erasePerson(mongo, studentId, act());
    t.equal(await run('upkeep', message), 'done');
    if (isErased) t.match(await stored(message), { result: { dropped: 'ERASED' } });
    else t.match(callsOf(eventId)[1]?.body, { data: { studentId } });
  }
});
