import t from 'tap';
import { startAttempt } from '#api/attempt/start.ts';
import { submitAttempt } from '#api/attempt/submit.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { scripted } from '#testing/actors/scripted-actor.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openJitter, scaled } from '#testing/chance.ts';
import { callOf, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { graded, postGrading, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

const jitter = openJitter();
t.comment(`RACE_SEED=${jitter.seed}`);

const HIDDEN = { ...SUBMITTED, exam: { ...graded({ showResultMode: 'MANUAL' }).exam } } as ReturnType<typeof graded>;

function twoWorkers(t: Parameters<typeof testWorker>[0], mongo: TestMongo, name: string) {
  return ['one', 'two'].map((workerId) =>
    testWorker(t, testKernel(mongo, { workerId }), makeActor(name, testWorkerDeps(mongo)), {
      concurrency: 4,
      pollMs: 20,
    }),
  );
}

/** Every attempt of the exam is released and graded, and each was announced to the student and to the parents once. */
async function announcedOnce(t: Pick<Tap, 'strictSame'>, mongo: TestMongo, examId: string, count: number) {
  const all = await until(
    'all graded and released',
    async () => {
      const found = await attempts(mongo).find({ examId }).toArray();
      const done = found.filter(({ status, exam }) => status === 'GRADED' && exam.resultsReleasedAt !== null);
      return done.length === count ? done : null;
    },
    15_000,
  );
  const rows = await mongo.db.collection<{ _id: string }>(NOTICES).find({ 'body.examId': examId }).toArray();
  const wanted = (all ?? []).flatMap(({ _id }) => [
    `${_id}:notification:grade_released`,
    `${_id}:notification:grade_released_parent`,
  ]);
  t.strictSame(rows.map((row) => row._id).sort(), wanted.sort());
}
type Tap = typeof t;

/** A start of one question whose results wait for a release. */
function startOf(examId: string) {
  const exam = {
    id: examId,
    organizationId: 'org-1',
    title: 'Toán 12',
    status: 'PUBLISHED',
    deliveryMode: 'ONLINE',
    durationMinutes: 90,
    showResultMode: 'MANUAL',
    createdById: 'teacher-1',
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

/** The same MongoDB, where `first` happens before each insert of one document into the collection. */
function beforeInsert(mongo: TestMongo, collection: string, first: () => Promise<void>): TestMongo {
  const db = tappedDb(mongo, (insertOne, name, into) => {
    if (name !== 'insertOne' || into !== collection) return undefined;
    return async (...args) => {
      await first();
      return insertOne(...args);
    };
  });
  return { ...mongo, db };
}

t.test('an attempt that a release could not see takes it over with its grade', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo);
  const [grading, releasing] = [makeActor('grading', deps), makeActor('resultsrelease', deps)];
  const run = async (actor: typeof grading, command: Command) =>
    t.equal(await runCommand(testKernel(mongo), actor, command.queue, command._id), 'done');

  const late = `exam-${newId()}`;
  await run(releasing, await postRelease(mongo, { examId: late }));
  // Its start looked for a release before there was one, and wrote after the release had walked by.
  await run(grading, await postGrading(mongo, await storeAttempt(mongo, { ...HIDDEN, examId: late })));
  await announcedOnce(t, mongo, late, 1);

  const early = `exam-${newId()}`;
  const sitting = await postGrading(mongo, await storeAttempt(mongo, { ...HIDDEN, examId: early }));
  // Decided before the release, committed after it: the first grade is hidden, the one that counts is not.
  const slow = scripted(grading, async (_run, real) => {
    const decided = await real();
    await run(releasing, await postRelease(mongo, { examId: early }));
    return decided;
  });
  await run(slow, sitting);
  await announcedOnce(t, mongo, early, 1);
});

t.test('a release against gradings announces each attempt once', async (t) => {
  const mongo = await openTestMongo(t);
  const graders = twoWorkers(t, mongo, 'grading');
  const releasers = twoWorkers(t, mongo, 'resultsrelease');
  const EXAMS = scaled(6, 20);
  const STUDENTS = 10;
  for (let round = 0; round < EXAMS; round++) {
    const examId = `exam-${newId()}`;
    const sitting: Attempt[] = [];
    for (let n = 0; n < STUDENTS; n++) sitting.push(await storeAttempt(mongo, { ...HIDDEN, examId }));
    const grade = async (attempt: Attempt, n: number) => {
      await jitter.pause(40);
      const command = await postGrading(mongo, attempt);
      await graders[n % 2]?.knock('grading', command._id);
    };
    const release = async () => {
      await jitter.pause(30);
      const command = await postRelease(mongo, { examId });
      await Promise.all(releasers.map((worker) => worker.knock('resultsrelease', command._id)));
      return command;
    };
    const [command] = await Promise.all([release(), ...sitting.map(grade)]);
    await announcedOnce(t, mongo, examId, STUDENTS);
    const counted = (await readCommand(mongo, 'resultsrelease', command._id))?.result as {
      queuedNotifications: number;
    };
    t.ok(counted.queuedNotifications % 2 === 0 && counted.queuedNotifications <= STUDENTS * 2);
  }
});

t.test('a start that a release has walked past takes the release over itself', async (t) => {
  const mongo = await openTestMongo(t);
  const releasing = makeActor('resultsrelease', testWorkerDeps(mongo));
  const examId = `exam-${newId()}`;
  // The start has looked for a release and found none; now, before it writes, all of one happens.
  const slow = beforeInsert(mongo, 'attempts', async () => {
    const { queue, _id: id } = await postRelease(mongo, { examId });
    t.equal(await runCommand(testKernel(mongo), releasing, queue, id), 'done');
    t.match(await readCommand(mongo, queue, id), { result: { updatedAttempts: 0 } }, 'it saw none');
  });
  const started = await startAttempt(inProcessDoor(slow, {}), callOf(startOf(examId), { examId }, 'student-1'));
  t.match(started, { status: 201, data: { attempt: { exam: { resultsReleasedAt: /Z$/ } } } });
  t.match(await attempts(mongo).findOne({ examId }), {
    exam: { resultsReleasedAt: Date },
    tally: { released: true },
    status: 'IN_PROGRESS',
  });
});

t.test('a release against starts that are handed in at once announces each attempt once', async (t) => {
  const mongo = await openTestMongo(t);
  const door = inProcessDoor(mongo, { grading: twoWorkers(t, mongo, 'grading') });
  const releasers = twoWorkers(t, mongo, 'resultsrelease');
  const EXAMS = scaled(6, 20);
  const STUDENTS = 8;
  for (let round = 0; round < EXAMS; round++) {
    const examId = `exam-${newId()}`;
    const sit = async (_: unknown, n: number) => {
      await jitter.pause(30);
      const started = await startAttempt(door, callOf(startOf(examId), { examId }, `student-${n}`));
      if (!('data' in started)) throw new Error(JSON.stringify(started));
      const { attempt } = started.data as { attempt: { id: string } };
      await jitter.pause(5);
      await submitAttempt(door, callOf({ source: 'STUDENT' }, { attemptId: attempt.id }, `student-${n}`));
    };
    const release = async () => {
      await jitter.pause(40);
      const command = await postRelease(mongo, { examId, organizationId: jitter.next() < 0.5 ? null : 'org-1' });
      await Promise.all(releasers.map((worker) => worker.knock('resultsrelease', command._id)));
    };
    await Promise.all([release(), ...Array.from({ length: STUDENTS }, sit)]);
    await announcedOnce(t, mongo, examId, STUDENTS);
  }
});

t.test('two releases of one exam at once count and announce each attempt once between them', async (t) => {
  const mongo = await openTestMongo(t);
  const releasers = twoWorkers(t, mongo, 'resultsrelease');
  for (let round = 0; round < scaled(5, 20); round++) {
    const examId = `exam-${newId()}`;
    for (let n = 0; n < 12; n++) await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
    const counts = await Promise.all(
      releasers.map(async (worker) => {
        await jitter.pause(10);
        const command = await postRelease(mongo, { examId });
        await worker.knock('resultsrelease', command._id);
        const settled = await until('done', async () => {
          const now = await readCommand(mongo, 'resultsrelease', command._id);
          return now?.status === 'DONE' ? now : null;
        });
        return settled?.result as { updatedAttempts: number; queuedNotifications: number };
      }),
    );
    t.equal(
      counts.reduce((sum, count) => sum + count.updatedAttempts, 0),
      12,
    );
    t.equal(
      counts.reduce((sum, count) => sum + count.queuedNotifications, 0),
      24,
    );
    await announcedOnce(t, mongo, examId, 12);
  }
});
