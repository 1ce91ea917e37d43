import t from 'tap';
import { attempts, SEATS, seats } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openTombstone } from '#infra/mongo/erased-persons.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { StartRequest } from '#shared/generated/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { numeric, startBody } from '#testing/clients/attempt-client.ts';
import { callOf, coldFrontDoor, inProcessDoor, startedAttempt } from '#testing/doors/in-process-door.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { type Method, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { receiveHandoff } from './intake.ts';
import { readAttempt } from './queries.ts';
import { saveOneAnswer } from './save-answer.ts';
import { startAttempt } from './start.ts';
import { postEvent, submitAttempt } from './submit.ts';

const mongo = await openTestMongo(t);
const ATTEMPTS = attempts(mongo).collectionName;
const FORBIDDEN = { rejected: 'FORBIDDEN' };
const act = () => ({ operator: 'an', reason: 'a test', now: Date.now() });
const erase = (studentId: string) => erasePerson(mongo, studentId, act());

/** A guest link with one seat. */
const BODY: StartRequest = {
  exam: { id: 'exam-1', status: 'PUBLISHED', durationMinutes: 60, showResultMode: 'IMMEDIATE' },
  access: { link: { id: 'link-1', mode: 'GUEST_ALLOWED', active: true, studentLimit: 1 } },
  questions: [{ questionId: 'q1', score: 1, type: 'ESSAY', scoringRule: { mode: 'ESSAY' } }],
};

/** Starts an attempt at a front door of its own. `before(n)` runs before the nth count of the link's seats, n from 1. */
function startAtSeat(mongo: TestMongo, studentId: string, key: string, before?: (count: number) => Promise<void>) {
  let counts = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (before === undefined || collection !== SEATS || name !== 'countDocuments') return undefined;
    return async (...args) => {
      counts += 1;
      await before(counts);
      return method(...args);
    };
  });
  const call = callOf(BODY, { examId: 'exam-1' }, studentId, key);
  return startAttempt(coldFrontDoor({ ...mongo, db }), call);
}

for (const at of [1, 2]) {
  for (const [name, winner] of [
    ['the same key', 'key-1'],
    ['another key', 'key-2'],
  ] as const) {
    t.test(`a start returns the attempt of a start under ${name} that took the last seat at count ${at}`, async (t) => {
      const mongo = await openTestMongo(t);
      let first: Awaited<ReturnType<typeof startAttempt>> = { rejected: 'INTERNAL' };
      const second = await startAtSeat(mongo, 'student-1', 'key-1', async (count) => {
        if (count === at) first = await startAtSeat(mongo, 'student-1', winner);
      });
      const [stored] = await attempts(mongo).find({}).toArray();
      t.match(first, { status: 201 });
      t.match(second, { status: 200, headers: { 'Idempotency-Replayed': `${winner === 'key-1'}` } });
      for (const reply of [first, second]) t.equal(startedAttempt(reply).id, stored?._id);
      t.equal(await attempts(mongo).countDocuments(), 1);
      t.equal(await seats(mongo).countDocuments(), 1);
    });
  }

  t.test(`a start is refused if another student took the last seat at count ${at}`, async (t) => {
    const mongo = await openTestMongo(t);
    const second = await startAtSeat(mongo, 'student-1', 'key-1', async (count) => {
      if (count === at) await startAtSeat(mongo, 'student-2', 'key-1');
    });
    t.strictSame(second, { rejected: 'ACCESS_LINK_FULL' });
    t.equal(await attempts(mongo).countDocuments(), 1);
  });
}

/** Starts an attempt of a student on a guest link. */
function startOnLink(on: Mongo, studentId: string) {
  const link = { id: `link-of-${studentId}`, mode: 'GUEST_ALLOWED', active: true, studentLimit: 3 };
  const body = startBody('exam-1', { access: { assigned: false, link }, questions: [numeric('q', [{ value: 2 }])] });
  return startAttempt(inProcessDoor(on, {}), callOf(body as never, { examId: 'exam-1' }, studentId, 'key-1'));
}

t.test('a start of an erased student is refused, and never stores an attempt or a seat', async (t) => {
  await openTombstone(mongo, 'student-1', act());
  // A row that is withdrawn later may outlive its process, and takes a seat meanwhile.
  const inserted: string[] = [];
  const db = tappedDb(mongo, (_method, name, collection) => {
    if (/^(insert|update|findOneAnd)/.test(name)) inserted.push(collection);
    return undefined;
  });
  t.match(await startOnLink({ ...mongo, db }, 'student-1'), { rejected: 'PERSON_ERASED' });
  t.strictSame(inserted, [], 'not even a paper');
  t.equal(await attempts(mongo).countDocuments({ studentId: 'student-1' }), 0);
  t.match(await startOnLink(mongo, 'student-2'), { status: 201 }, 'another student starts');
});

t.test('a start that an erasure overtakes withdraws its attempt and its seat', async (t) => {
  // The tombstone is stored after the start has read the tombstones, and before it inserts the attempt.
  const db = tappedDb(mongo, (method, name, collection) =>
    name === 'insertOne' && collection === ATTEMPTS
      ? async (...args) => {
          await openTombstone(mongo, 'student-3', act());
          return method(...args);
        }
      : undefined,
  );
  t.match(await startOnLink({ ...mongo, db }, 'student-3'), { rejected: 'PERSON_ERASED' });
  t.equal(await attempts(mongo).countDocuments({ studentId: 'student-3' }), 0);
  t.equal(await seats(mongo).countDocuments({ studentId: 'student-3' }), 0);
});

const answerTo = (questionId: string) => ({ questionId, answer: { selectedOptionIds: ['a'] } });

/** Stores a graded attempt, lets a front door cache its ref, and erases the student. */
async function erasedBehindDoor() {
  const studentId = newId();
  const attempt = await storeAttempt(mongo, { ...graded(), studentId });
  const door = inProcessDoor(mongo, {});
  const call = <Body>(body: Body) => callOf(body, { attemptId: attempt._id }, studentId);
  t.match(await saveOneAnswer(door, call(answerTo('choice'))), { rejected: 'ATTEMPT_LOCKED' }, 'the ref is cached');
  t.equal((await erase(studentId)).kind, 'erased');
  return { studentId, attempt, door, call };
}

t.test('a front door that has cached the ref of an erased student refuses the id and stores nothing', async (t) => {
  for (const step of ['save', 'unknown question', 'submit', 'event', 'long event', 'timeout', 'read'] as const) {
    const { attempt, door, call } = await erasedBehindDoor();
    const before = await attempts(mongo).findOne({ _id: attempt._id });
    const metadata = { long: 'x'.repeat(5_000) };
    const steps = {
      save: () => saveOneAnswer(door, call(answerTo('choice'))),
      'unknown question': () => saveOneAnswer(door, call(answerTo('unknown'))),
      submit: () => submitAttempt(door, call({ source: 'STUDENT' as const })),
      event: () => postEvent(door, call({ type: 'TAB_HIDDEN' as const })),
      'long event': () => postEvent(door, call({ type: 'TAB_HIDDEN' as const, metadata })),
      timeout: () => postEvent(door, call({ type: 'TIMEOUT' as const })),
      read: () => readAttempt(door, call(undefined)),
    };
    t.strictSame(await steps[step](), FORBIDDEN, step);
    t.strictSame(await steps[step](), FORBIDDEN, `${step}, again`);
    t.strictSame(await attempts(mongo).findOne({ _id: attempt._id }), before, step);
  }
});

t.test(
  'a handoff to the attempt of an erased student stores the pseudonym, whatever the front door has cached',
  async (t) => {
    const { studentId, attempt, door } = await erasedBehindDoor();
    const { signal } = new AbortController();
    const body = { sourceEventId: 'late', questionId: 'essay', score: 1, maxScore: 2 };
    const call = { ...callOf(body, { attemptId: attempt._id }, ''), identity: {}, signal: AbortSignal.any([signal]) };
    const waiting = {
      ...door,
      replies: { ...door.replies, register: () => ({ settled: async () => false, cancel() {} }) },
    };
    t.match(await receiveHandoff(waiting as typeof door, call as never), { status: 202 });
    const [command] = await mongo.db.collection(COMMANDS).find({ subject: attempt._id }).toArray();
    t.match(command, { body: { attemptId: attempt._id, studentId: /^erased-/ } });
    t.equal(await mongo.db.collection(COMMANDS).countDocuments({ 'body.studentId': studentId }), 0);
  },
);

t.test('a handoff that was applied before its student was erased returns 200 with the attempt', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  const door = inProcessDoor(mongo, {});
  const settled = async () => {
    const command = await mailboxOf(mongo, 'essayhandoff').findOne({ subject: attempt._id });
    const actor = makeActor('essayhandoff', testWorkerDeps(mongo));
    t.equal(await runCommand(testKernel(mongo), actor, command as Command), 'done');
    t.equal((await erase(attempt.studentId)).kind, 'erased');
    return true;
  };
  const raced = { ...door, replies: { ...door.replies, register: () => ({ settled, cancel: () => undefined }) } };
  const body = { sourceEventId: 'event-1', questionId: 'essay', score: 1.5, maxScore: 2 };
  const call = { ...callOf(body, { attemptId: attempt._id }, ''), identity: {} };
  t.match(await receiveHandoff(raced, call as never), {
    status: 200,
    data: { applied: true, attempt: { id: attempt._id, studentId: /^erased-/, totalScore: 2.5 } },
  });
});

t.test('a start that finds an attempt of a student who is being erased is refused, and does not fail', async (t) => {
  const studentId = newId();
  const examId = `exam-${studentId}`;
  await storeAttempt(mongo, { ...graded(), studentId, examId, startKeys: ['key-1'] });
  let times = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'find' || collection !== ATTEMPTS || times > 0) return undefined;
    const find = method as unknown as (...args: unknown[]) => { toArray(): Promise<unknown[]> };
    return ((...args: unknown[]) => ({
      async toArray() {
        times += 1;
        const found = await find(...args).toArray();
        await erase(studentId);
        return found;
      },
    })) as unknown as Method;
  });
  const body = startBody(examId, { questions: [numeric('q', [{ value: 2 }])] });
  const call = callOf(body as never, { examId }, studentId, 'key-1');
  t.match(await startAttempt(inProcessDoor({ ...mongo, db }, {}), call), { rejected: 'PERSON_ERASED' });
  t.equal(times, 1);
});

/** Returns a MongoDB where the attempt is inserted after the first read of the student's own attempt. */
function insertedAfterFirstRead(attempt: Attempt): Mongo {
  let times = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOne' || collection !== ATTEMPTS) return undefined;
    return async (...args) => {
      const found = await method(...args);
      times += 1;
      if (times === 1) await attempts(mongo).insertOne(attempt);
      return found;
    };
  });
  return { ...mongo, db };
}

t.test('a request for an attempt that is being started is never refused as that of another student', async (t) => {
  const steps = {
    save: { step: saveOneAnswer, body: answerTo('choice'), is: 200 },
    submit: { step: submitAttempt, body: { source: 'STUDENT' }, is: 202 },
    read: { step: readAttempt, body: undefined, is: 'UNAVAILABLE' },
  } as const;
  for (const [name, { step, body, is }] of Object.entries(steps)) {
    const attempt = await storeAttempt(mongo, { deadlineAt: null });
    await attempts(mongo).deleteOne({ _id: attempt._id });
    const door = inProcessDoor(insertedAfterFirstRead(attempt), {});
    const replies = { ...door.replies, register: () => ({ settled: async () => false, cancel: () => undefined }) };
    const call = callOf(body as never, { attemptId: attempt._id }, attempt.studentId);
    const reply = await step({ ...door, replies }, call);
    t.match(reply, typeof is === 'number' ? { status: is } : { rejected: is }, name);
  }
});
