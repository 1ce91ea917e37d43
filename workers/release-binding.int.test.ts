import t from 'tap';
import { startAttempt } from '#api/attempt/start.ts';
import { submitAttempt } from '#api/attempt/submit.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openChance, scaled } from '#testing/chance.ts';
import { callOf, inProcessDoor, startedAttempt } from '#testing/doors/in-process-door.ts';
import { announcedOnce, announcements, noticeRows } from '#testing/stored/stored.ts';
import { graded, postGrading, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

const jitter = openChance((line) => t.comment(line));

/** Returns a start request with one question, whose results wait for a release. */
function startOf(examId: string, change: object = {}) {
  const exam = {
    id: examId,
    organizationId: 'org-1',
    title: 'Toán 12',
    status: 'PUBLISHED',
    deliveryMode: 'ONLINE',
    durationMinutes: 90,
    showResultMode: 'MANUAL',
    createdById: 'teacher-1',
    ...change,
  };
  const question = {
    questionId: 'q1',
    score: 1,
    type: 'NUMERIC',
    content: '1 + 1',
    contentText: '1 + 1',
    options: [],
    scoringRule: { mode: 'NUMERIC' },
    answerKey: { numericAnswers: [{ value: 2 }] },
  };
  return { exam, access: { assigned: true, attemptLimit: null }, questions: [question] } as never;
}

/** Returns the same MongoDB, but runs `first` before each call of `method` on the collection. */
function beforeEach(mongo: TestMongo, method: string, collection: string, first: () => Promise<void>): TestMongo {
  const db = tappedDb(mongo, (call, name, into) => {
    if (name !== method || into !== collection) return undefined;
    return async (...args) => {
      await first();
      return call(...args);
    };
  });
  return { ...mongo, db };
}

/** Stores a release and lets its worker run to the end. */
async function releaseNow(mongo: TestMongo, release: Parameters<typeof postRelease>[1]) {
  const command = await postRelease(mongo, release);
  const actor = makeActor('resultsrelease', testWorkerDeps(mongo));
  t.equal(await runCommand(testKernel(mongo), actor, command), 'done');
  return (await readCommand(mongo, command))?.result;
}

const started = async (mongo: TestMongo, examId: string, student: string, change: object = {}) =>
  startedAttempt(await startAttempt(inProcessDoor(mongo, {}), callOf(startOf(examId, change), { examId }, student)));

t.test('a start that was decided before a release and commits after it takes the release', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  // The start has found no release. Before it writes, a whole release runs.
  const slow = beforeEach(mongo, 'insertOne', 'attempts', async () => {
    t.match(await releaseNow(mongo, { examId }), { updatedAttempts: 0 }, 'the release finds no attempt');
  });
  t.match(await started(slow, examId, 'student-1'), { exam: { resultsReleasedAt: /Z$/ } });
  t.match(await attempts(mongo).findOne({ examId }), {
    exam: { resultsReleasedAt: Date },
    releaseEventId: String,
    tally: { released: true },
    status: 'IN_PROGRESS',
  });
});

t.test('an attempt whose start died before it took the release takes the release with its grade', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  // A start reads a release only after its insert, when it has seen that one was stored meanwhile.
  const dying = beforeEach(mongo, 'findOne', 'attempt_releases', async () => {
    throw new Error('the process has died');
  });
  const slow = beforeEach(dying, 'insertOne', 'attempts', async () => void (await releaseNow(mongo, { examId })));
  await t.rejects(started(slow, examId, 'student-1'), { message: 'the process has died' });
  const attempt = await attempts(mongo).findOneAndUpdate({ examId }, { $set: SUBMITTED }, { returnDocument: 'after' });
  if (attempt === null) throw new Error('not started');
  t.match(attempt, { releasesSeen: 0, exam: { resultsReleasedAt: null } });
  const command = await postGrading(mongo, attempt);
  const grading = makeActor('grading', testWorkerDeps(mongo));
  t.equal(await runCommand(testKernel(mongo), grading, command), 'done');
  await announcedOnce(t, mongo, examId, 1);
});

t.test('a start after a release follows its own snapshot, also when it is graded', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  const early = await started(mongo, examId, 'early');
  // A stored release is enough, so its worker does not run yet.
  const waiting = await postRelease(mongo, { examId, sourceEventId: 'first' });
  const late = await started(mongo, examId, 'late');
  const own = await started(mongo, examId, 'own', { resultsReleasedAt: '2026-05-04T03:00:00Z' });
  t.equal(late.exam.resultsReleasedAt, null);
  t.equal(own.exam.resultsReleasedAt, '2026-05-04T03:00:00.000Z');
  const releasing = makeActor('resultsrelease', testWorkerDeps(mongo));
  t.equal(await runCommand(testKernel(mongo), releasing, waiting), 'done');
  t.match((await readCommand(mongo, waiting))?.result, { updatedAttempts: 1 });

  const gradings = [testWorker(t, testKernel(mongo), makeActor('grading', testWorkerDeps(mongo)), { pollMs: 20 })];
  const door = inProcessDoor(mongo, { grading: gradings });
  for (const [student, { id: attemptId }] of Object.entries({ early, late, own })) {
    await submitAttempt(door, callOf({ source: 'STUDENT' }, { attemptId }, student));
  }
  const rows = await noticeRows(mongo, examId);
  t.strictSame(
    rows.map(({ _id }) => _id),
    announcements([early.id, own.id]),
    'the later start without a release time has no rows',
  );
  const causes = new Map(rows.map(({ body }) => [body.attemptId, body.releaseEventId]));
  t.strictSame([causes.get(early.id), causes.get(own.id)], ['first', null]);
  t.match(await attempts(mongo).findOne({ _id: late.id }), {
    status: 'GRADED',
    exam: { resultsReleasedAt: null },
    tally: { released: false },
  });

  t.match(await releaseNow(mongo, { examId, sourceEventId: 'second' }), { updatedAttempts: 1, queuedNotifications: 2 });
  await announcedOnce(t, mongo, examId, 3);
});

t.test('an attempt is bound by the first release after its start that concerns it', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  const releasedAt = (day: number) => new Date(Date.UTC(2026, 0, day));
  await postRelease(mongo, { examId, releasedAt: releasedAt(1) });
  await postRelease(mongo, { examId, releasedAt: releasedAt(2), organizationId: 'org-2' });
  await postRelease(mongo, { examId, releasedAt: releasedAt(3), organizationId: 'org-1' });
  await postRelease(mongo, { examId, releasedAt: releasedAt(4) });
  await postRelease(mongo, { examId: `${examId}-b`, releasedAt: releasedAt(5) });
  const grading = makeActor('grading', testWorkerDeps(mongo));
  const dayOf = async (seen: number, organizationId: string | null) => {
    const of = { ...graded({ showResultMode: 'MANUAL' }), ...SUBMITTED, examId, organizationId, releasesSeen: seen };
    const attempt = await storeAttempt(mongo, of);
    await runCommand(testKernel(mongo), grading, await postGrading(mongo, attempt));
    const after = await attempts(mongo).findOne({ _id: attempt._id });
    t.equal(after?.status, 'GRADED');
    return after?.exam.resultsReleasedAt?.getUTCDate() ?? null;
  };
  t.strictSame(
    [
      await dayOf(0, 'org-1'),
      await dayOf(1, 'org-1'),
      await dayOf(1, 'org-2'),
      await dayOf(1, null),
      await dayOf(3, 'org-1'),
      await dayOf(4, 'org-1'),
      await dayOf(9, 'org-1'),
    ],
    [1, 3, 2, 4, 4, null, null],
  );
});

t.test(
  'of two releases at the same time the one that was stored first sets the time, whichever walk is faster',
  async (t) => {
    const mongo = await openTestMongo(t);
    const releasing = makeActor('resultsrelease', testWorkerDeps(mongo));
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const examId = `exam-${newId()}`;
      const from = (seen: number, organizationId: string | null) =>
        storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId, organizationId, releasesSeen: seen });
      const both = await from(0, 'org-1');
      const onlySecond = await from(1, 'org-1');
      const elsewhere = await from(0, 'org-2');
      const first = {
        examId,
        sourceEventId: `first-${examId}`,
        organizationId: 'org-1',
        releasedAt: new Date('2026-05-05'),
      };
      const second = { examId, sourceEventId: `second-${examId}`, releasedAt: new Date('2026-05-06') };
      const commands = [await postRelease(mongo, first), await postRelease(mongo, second)];
      for (const place of order) {
        const command = commands[place];
        if (command === undefined) throw new Error(`there is no command ${place}`);
        t.equal(await runCommand(testKernel(mongo), releasing, command), 'done');
      }
      const released = async ({ _id }: { _id: string }) => (await attempts(mongo).findOne({ _id }))?.releaseEventId;
      t.strictSame(
        [await released(both), await released(onlySecond), await released(elsewhere)],
        [first.sourceEventId, second.sourceEventId, second.sourceEventId],
        `walks in the order ${order}`,
      );
      const causes = (await noticeRows(mongo, examId)).map(({ body }) => [body.attemptId, body.releaseEventId]);
      t.equal(causes.length, 6, 'each attempt is announced once');
      t.ok(causes.every(([id, cause]) => cause === (id === both._id ? first : second).sourceEventId));
    }
  },
);

t.test(
  'releases that race starts and submits announce each bound attempt once, and never an unbound attempt',
  async (t) => {
    const mongo = await openTestMongo(t);
    const workers = (name: string) =>
      ['one', 'two'].map((workerId) =>
        testWorker(t, testKernel(mongo, { workerId }), makeActor(name, testWorkerDeps(mongo)), { pollMs: 20 }),
      );
    const door = inProcessDoor(mongo, { grading: workers('grading') });
    const releasers = workers('resultsrelease');
    const STUDENTS = 8;
    const met = { before: 0, meanwhile: 0, after: 0 };
    for (let round = 0; round < scaled(8, 40); round++) {
      const examId = `exam-${newId()}`;
      const stored = { from: Number.POSITIVE_INFINITY, to: Number.POSITIVE_INFINITY };
      const sit = async (_: unknown, n: number) => {
        await jitter.pause(30);
        const from = performance.now();
        const reply = await startAttempt(door, callOf(startOf(examId), { examId }, `student-${n}`));
        const to = performance.now();
        const attempt = startedAttempt(reply);
        await jitter.pause(5);
        await submitAttempt(door, callOf({ source: 'STUDENT' }, { attemptId: attempt.id }, `student-${n}`));
        return { id: attempt.id, from, to };
      };
      // The workers also poll, so either may run the command.
      const runByWorkers = async (command: CommandRef) => {
        await Promise.all(releasers.map((worker) => worker.tryRun(command)));
        await until('done', async () => (await readCommand(mongo, command))?.status === 'DONE');
      };
      const release = async () => {
        await jitter.pause(40);
        stored.from = performance.now();
        const command = await postRelease(mongo, { examId, organizationId: jitter.next() < 0.5 ? null : 'org-1' });
        stored.to = performance.now();
        await jitter.pause(10);
        await runByWorkers(command);
      };
      const [, ...sat] = await Promise.all([release(), ...Array.from({ length: STUDENTS }, sit)]);
      const found = await until('all graded', async () => {
        const all = await attempts(mongo).find({ examId, status: 'GRADED' }).toArray();
        return all.length === STUDENTS && all;
      });
      const bound = found.filter(({ exam }) => exam.resultsReleasedAt !== null).map(({ _id }) => _id);
      for (const { id, from, to } of sat) {
        // A start answered before the release was posted is decided before it; one sent after the post is decided after it.
        if (to < stored.from) t.ok(bound.includes(id), 'a start before the release is bound');
        else if (from > stored.to) t.notOk(bound.includes(id), 'a start after the release is not');
        met[to < stored.from ? 'before' : from > stored.to ? 'after' : 'meanwhile'] += 1;
      }
      t.strictSame(
        (await noticeRows(mongo, examId)).map(({ _id }) => _id),
        announcements(bound),
      );
      await runByWorkers(await postRelease(mongo, { examId }));
      await announcedOnce(t, mongo, examId, STUDENTS);
    }
    t.comment(JSON.stringify(met));
  },
);
