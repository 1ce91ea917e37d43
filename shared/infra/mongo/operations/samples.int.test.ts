import t from 'tap';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { INDEXES } from '#infra/mongo/schema/indexes.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-workers.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { CLUSTER_SAMPLES, coursesOf, readCourses, storeSample } from './samples.ts';

const NOW = Date.UTC(2026, 4, 4, 3, 0, 20);

t.test('of several front doors one stores the sample of a minute', async (t) => {
  const mongo = await openTestMongo(t);
  const now = Date.now();
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: now - 90_000 });
  const row = (_id: string, change: Partial<WorkerRow>) =>
    workerRow('grading', { _id, seenAt: new Date(now), ...change });
  await mongo.db
    .collection<WorkerRow>(WORKERS)
    .insertMany([
      row('a', { settled: { grading: 7 }, failed: { grading: 3 }, died: { grading: 1 } }),
      row('b', { settled: { grading: 5 }, died: { grading: 1 } }),
      row('killed', { seenAt: new Date(now - MINUTE), settled: { grading: 100 } }),
    ]);
  const stored = await Promise.all([storeSample(mongo, now), storeSample(mongo, now), storeSample(mongo, now)]);
  t.equal(stored.filter(Boolean).length, 1);
  t.notOk(await storeSample(mongo, now), 'again within the minute');
  t.equal(await mongo.db.collection(CLUSTER_SAMPLES).countDocuments({}), 1);
  const course = (await readCourses(mongo, now)).get('grading');
  const last = (name: 'due' | 'settled' | 'failed' | 'died') => course?.[name].at(-1);
  t.strictSame(
    { due: last('due'), settled: last('settled'), failed: last('failed'), died: last('died'), at: course?.due.length },
    { due: 1, settled: 12, failed: 3, died: 2, at: 60 },
  );
  t.ok((course?.oldestDueMs.at(-1) ?? 0) >= 90_000);
  t.ok(await storeSample(mongo, now + MINUTE), 'the next minute');
});

t.test('a minute without a sample has no value', async (t) => {
  const queue = (due: number) => [{ queue: 'grading', due, settled: 0, failed: 0, died: 0, oldestDueMs: 0 }];
  const at = (minutes: number) => new Date(NOW - minutes * MINUTE);
  const rows = [
    { _id: 'over', at: at(60), queues: queue(9) },
    { _id: 'first', at: at(59), queues: queue(1) },
    { _id: 'last', at: at(0), queues: queue(2) },
    { _id: 'ahead', at: at(-1), queues: queue(9) },
  ];
  const due = coursesOf(rows, NOW).get('grading')?.due ?? [];
  t.strictSame(due, [1, ...Array.from({ length: 58 }, () => null), 2]);
  t.equal(coursesOf([], NOW).size, 0);
});

t.test('samples expire after two hours', async (t) => {
  const index = INDEXES.find(({ collection }) => collection === CLUSTER_SAMPLES);
  t.match(index, { keys: { at: 1 }, options: { expireAfterSeconds: 7_200 } });
});
