import v8 from 'node:v8';
import vm from 'node:vm';
import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { freshAttempt, graded, postRelease } from '#testing/stored/stored-attempts.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { runCommand } from '#workers/run-command.ts';
import { resultsReleaseActor } from './actor.ts';

/** Ten thousand attempts take over a minute on a small machine; `npm run bench` also measures that many. */
const ATTEMPTS = process.env.FAULTS_FULL === '1' ? 10_000 : 2_000;
const MIB = 1024 * 1024;
v8.setFlagsFromString('--expose-gc');
const collectGarbage: () => void = vm.runInNewContext('gc');

t.test('thousands of attempts are released in chunks, in memory that does not grow with them', async (t) => {
  const mongo = await openTestMongo(t);
  const hidden = graded({ showResultMode: 'MANUAL' });
  for (let done = 0; done < ATTEMPTS; done += 1_000) {
    const some = Array.from({ length: 1_000 }, () => ({ ...freshAttempt(hidden), examId: 'exam-big' }));
    await attempts(mongo).insertMany(some);
  }
  const command = await postRelease(mongo, { examId: 'exam-big' });
  const heap: number[] = [];
  const actor = resultsReleaseActor(testWorkerDeps(mongo));
  const watched = withStep(actor, (run, real) =>
    real({
      ...run,
      async checkpoint(progress, effects) {
        await run.checkpoint(progress, effects);
        collectGarbage();
        heap.push(process.memoryUsage().heapUsed);
      },
    }),
  );
  const began = performance.now();
  t.equal(await runCommand(testKernel(mongo), watched, command), 'done');
  t.comment(`${heap.length} chunks in ${Math.round(performance.now() - began)} ms`);
  const settled = await readCommand(mongo, command);
  t.strictSame(settled?.result, { updatedAttempts: ATTEMPTS, queuedNotifications: ATTEMPTS * 2 });
  t.ok(heap.length >= ATTEMPTS / 100, 'not one transaction for all');
  t.equal(await mongo.db.collection(NOTICES).countDocuments({ 'body.examId': 'exam-big' }), ATTEMPTS * 2);

  // Skip the first chunk, which may load code.
  const [early = 0, late = 0] = [heap[1], heap.at(-1)];
  t.comment(`heap after a chunk: ${(early / MIB).toFixed(1)} MiB, ${(late / MIB).toFixed(1)} MiB at the end`);
  // Each attempt with its two rows is some 4 KiB.
  t.ok(late < early + ATTEMPTS * 1024, 'the heap does not grow with the attempts');
});

t.test('a class that saves all the time is released, in chunks that become small enough', async (t) => {
  const mongo = await openTestMongo(t);
  const hidden = graded({ showResultMode: 'MANUAL' });
  const some = Array.from({ length: 150 }, () => ({ ...freshAttempt(hidden), examId: 'exam-busy' }));
  await attempts(mongo).insertMany(some);
  const command = await postRelease(mongo, { examId: 'exam-busy' });
  const sizes: number[] = [];
  // Before each write of more than four attempts one of them is saved, so that the write meets a change.
  const db = tappedDb(mongo, (call, name, collection) => {
    if (name !== 'updateMany' || collection !== 'attempts') return undefined;
    return async (...args) => {
      const ids = (args[0] as { _id: { $in: string[] } })._id.$in;
      sizes.push(ids.length);
      if (sizes.length > 1_000) throw new Error('the release never ends');
      if (ids.length > 4) await attempts(mongo).updateOne({ _id: ids.at(-1) ?? '' }, { $set: { stamp: newStamp() } });
      return call(...args);
    };
  });
  const actor = resultsReleaseActor(testWorkerDeps({ ...mongo, db }));
  t.equal(await runCommand(testKernel(mongo), actor, command), 'done');
  const settled = await readCommand(mongo, command);
  t.strictSame(settled?.result, { updatedAttempts: 150, queuedNotifications: 300 });
  // A transaction that meets the change itself is repeated once with the same chunk.
  t.strictSame([...new Set(sizes)].slice(0, 6), [100, 50, 25, 13, 7, 4], 'each change halves the next chunk');
});
