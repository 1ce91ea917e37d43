import t from 'tap';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { scriptActor } from '#testing/actors/scripted-actor.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openJitter, scaled } from '#testing/chance.ts';
import { announcedOnce } from '#testing/stored/announced.ts';
import { graded, postGrading, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
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

t.test('an attempt that a release did not find takes the release with its grade', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo);
  const [grading, releasing] = [makeActor('grading', deps), makeActor('resultsrelease', deps)];
  const run = async (actor: typeof grading, command: Command) =>
    t.equal(await runCommand(testKernel(mongo), actor, command), 'done');

  const late = `exam-${newId()}`;
  await run(releasing, await postRelease(mongo, { examId: late }));
  // The start of this attempt was decided before the release, and its insert came after the release had walked the exam.
  await run(grading, await postGrading(mongo, await storeAttempt(mongo, { ...HIDDEN, examId: late })));
  await announcedOnce(t, mongo, late, 1);

  const early = `exam-${newId()}`;
  const sitting = await postGrading(mongo, await storeAttempt(mongo, { ...HIDDEN, examId: early }));
  // The first grade is decided before the release and hides the result. Its commit is stale, so the attempt is graded again.
  const slow = scriptActor(grading, async (_run, real) => {
    const decided = await real();
    await run(releasing, await postRelease(mongo, { examId: early }));
    return decided;
  });
  await run(slow, sitting);
  await announcedOnce(t, mongo, early, 1);
});

t.test('a release that races gradings announces each attempt once', async (t) => {
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
      await graders[n % 2]?.tryRun(command);
    };
    const release = async () => {
      await jitter.pause(30);
      const command = await postRelease(mongo, { examId });
      await Promise.all(releasers.map((worker) => worker.tryRun(command)));
      return command;
    };
    const [command] = await Promise.all([release(), ...sitting.map(grade)]);
    await announcedOnce(t, mongo, examId, STUDENTS);
    const counted = (await readCommand(mongo, command))?.result as {
      queuedNotifications: number;
    };
    t.ok(counted.queuedNotifications % 2 === 0 && counted.queuedNotifications <= STUDENTS * 2);
  }
});

t.test('two concurrent releases of one exam count and announce each attempt once between them', async (t) => {
  const mongo = await openTestMongo(t);
  const releasers = twoWorkers(t, mongo, 'resultsrelease');
  for (let round = 0; round < scaled(5, 20); round++) {
    const examId = `exam-${newId()}`;
    for (let n = 0; n < 12; n++) await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
    const counts = await Promise.all(
      releasers.map(async (worker) => {
        await jitter.pause(10);
        const command = await postRelease(mongo, { examId });
        await worker.tryRun(command);
        const settled = await until('done', async () => {
          const now = await readCommand(mongo, command);
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
