import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { type TestWorkerDeps, testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openChance } from '#testing/chance.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { announcedOnce, announcements, noticeRows } from '#testing/stored/stored.ts';
import { graded, postGrading, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';

const jitter = openChance((line) => t.comment(line));

const examOf = (exam: Partial<Attempt['exam']>) => graded(exam).exam as Attempt['exam'];
const ahead = () => new Date(Date.now() + HOUR);

async function run(mongo: TestMongo, deps: TestWorkerDeps, command: Command): Promise<void> {
  const actor = makeActor(command.queue.replace(/:.*/, ''), deps);
  t.equal(await runCommand(testKernel(mongo), actor, command), 'done');
}

async function gradedWith(mongo: TestMongo, deps: TestWorkerDeps, examId: string, exam: Partial<Attempt['exam']>) {
  const attempt = await storeAttempt(mongo, { ...SUBMITTED, examId, exam: examOf(exam) });
  await run(mongo, deps, await postGrading(mongo, attempt));
  return attempt;
}

/** Returns the due times of an exam's notices (Unix milliseconds). null: due as soon as the row was written. */
async function dueTimes(mongo: TestMongo, examId: string): Promise<(number | null)[]> {
  const rows = await noticeRows(mongo, examId);
  return rows.map(({ nextRunAt, createdAt }) =>
    nextRunAt.getTime() === createdAt.getTime() ? null : nextRunAt.getTime(),
  );
}

t.test('a release with a future time queues its notices at once, due at that time and without a ring', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo, (await openNeighbours(t)).env);
  const examId = `exam-${newId()}`;
  const releasedAt = ahead();
  for (const exam of [
    { showResultMode: 'MANUAL' },
    { showResultMode: 'AFTER_CLOSE', closeTime: new Date(Date.now() + 2 * HOUR) },
    { showResultMode: 'AFTER_CLOSE', closeTime: new Date(Date.now() - HOUR) },
    { showResultMode: 'IMMEDIATE' },
  ] as const) {
    await storeAttempt(mongo, { ...graded(exam), examId });
  }
  const command = await postRelease(mongo, { examId, releasedAt });
  await run(mongo, deps, command);
  t.match((await readCommand(mongo, command))?.result, {
    updatedAttempts: 4,
    queuedNotifications: 4,
  });
  t.strictSame(await dueTimes(mongo, examId), Array(4).fill(releasedAt.getTime()));
  t.strictSame(deps.rings, []);

  // A second release, for now, changes nothing, because the release time is set already.
  const second = await postRelease(mongo, { examId });
  await run(mongo, deps, second);
  t.match((await readCommand(mongo, second))?.result, {
    updatedAttempts: 0,
    queuedNotifications: 0,
  });
  t.strictSame(await dueTimes(mongo, examId), Array(4).fill(releasedAt.getTime()));
});

t.test('the grade of an attempt with a future release time queues its notices, due at that time', async (t) => {
  const mongo = await openTestMongo(t);
  const deps = testWorkerDeps(mongo, (await openNeighbours(t)).env);
  const resultsReleasedAt = ahead();
  const due = async (exam: Partial<Attempt['exam']>) => {
    const examId = `exam-${newId()}`;
    await gradedWith(mongo, deps, examId, { resultsReleasedAt, ...exam });
    return dueTimes(mongo, examId);
  };
  const atRelease = [resultsReleasedAt.getTime(), resultsReleasedAt.getTime()];
  t.strictSame(await due({ showResultMode: 'MANUAL' }), atRelease);
  t.strictSame(await due({ showResultMode: 'AFTER_CLOSE', closeTime: null }), atRelease);
  t.strictSame(await due({ showResultMode: 'AFTER_CLOSE', closeTime: ahead() }), atRelease);
  t.strictSame(deps.rings, []);
  // The result is visible without the release, so it is announced at once.
  t.strictSame(await due({ showResultMode: 'IMMEDIATE' }), [null, null]);
  t.strictSame(await due({ showResultMode: 'AFTER_CLOSE', closeTime: new Date(Date.now() - HOUR) }), [null, null]);
  t.equal(deps.rings.length, 4);
  t.strictSame(await due({ showResultMode: 'AFTER_CLOSE', closeTime: ahead(), resultsReleasedAt: null }), []);
});

t.test('an early ring or poll sends no notice; at the release time each notice is sent once', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, neighbours.env);
  const examId = `exam-${newId()}`;
  const { _id } = await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
  await run(mongo, deps, await postRelease(mongo, { examId, releasedAt: ahead() }));
  const noticing = makeActor('gradenotices', deps);
  const worker = testWorker(t, testKernel(mongo), noticing);
  for (const row of await noticeRows(mongo, examId)) t.equal(await worker.tryRun(row), 'not-ours');
  await worker.poll();
  await worker.idle();
  t.equal(neighbours.calls.length, 0);
  t.ok((await noticeRows(mongo, examId)).every(({ attempts, fence }) => attempts === 0 && fence === 0));

  // Let the release time pass.
  const past = new Date(Date.now() - 1_000);
  await mongo.db.collection(NOTICES).updateMany({}, { $set: { nextRunAt: past } });
  const twins = ['one', 'two'].map((workerId) => testWorker(t, testKernel(mongo, { workerId }), noticing));
  await Promise.all(twins.map((twin) => twin.poll()));
  await Promise.all(twins.map((twin) => twin.idle()));
  t.ok((await noticeRows(mongo, examId)).every(({ status }) => status === 'DELIVERED'));
  t.strictSame([...neighbours.notices.keys()].sort(), announcements([_id]));
  t.ok([...neighbours.notices.values()].every((times) => times === 1));
});

t.test('future releases that race gradings announce each attempt once, never before its time', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const deps = testWorkerDeps(mongo, neighbours.env);
  const workers = (name: string) =>
    ['one', 'two'].map((workerId) =>
      testWorker(t, testKernel(mongo, { workerId }), makeActor(name, deps), { pollMs: 20 }),
    );
  const [graders, releasers] = [workers('grading'), workers('resultsrelease')];
  workers('gradenotices');
  const STUDENTS = 8;
  for (let round = 0; round < 4; round++) {
    const examId = `exam-${newId()}`;
    const releasedAt = new Date(Date.now() + 400);
    const sat: Attempt[] = [];
    for (let n = 0; n < STUDENTS; n++) {
      // Half of the attempts received the release time from the start already.
      const exam = examOf({ showResultMode: 'MANUAL', resultsReleasedAt: n % 2 === 0 ? releasedAt : null });
      sat.push(await storeAttempt(mongo, { ...SUBMITTED, examId, exam }));
    }
    const grade = async (attempt: Attempt, n: number) => {
      await jitter.pause(60);
      await graders[n % 2]?.tryRun(await postGrading(mongo, attempt));
    };
    const release = async (_: unknown, n: number) => {
      await jitter.pause(60);
      const command = await postRelease(mongo, { examId, releasedAt });
      await releasers[n % 2]?.tryRun(command);
    };
    await Promise.all([...sat.map(grade), ...Array.from({ length: 3 }, release)]);
    await announcedOnce(t, mongo, examId, STUDENTS);
    const rows = await until('all delivered', async () => {
      const found: Command<GradeNotice>[] = await noticeRows(mongo, examId);
      return found.every(({ status }) => status === 'DELIVERED') && found;
    });
    t.ok(
      rows.every(({ settledAt }) => settledAt !== null && settledAt >= releasedAt),
      'no row is delivered before its time',
    );
    t.equal(await attempts(mongo).countDocuments({ examId, 'exam.resultsReleasedAt': releasedAt }), STUDENTS);
    // A call that times out on a busy machine is repeated; the receiver recognises the repeat by its id.
    for (const { _id } of rows) t.ok(neighbours.notices.has(_id));
  }
});
