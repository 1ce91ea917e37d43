import t from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { expire } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import { workerRow } from '#testing/stored/stored-workers.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { actorSubject, actorSubjects, makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { queueMetrics } from './queue-metrics.ts';

t.test('a scrape has a value for every queue and every actor, zeros included', async (t) => {
  const mongo = await openTestMongo(t);
  const metrics = openMetrics({ process: false });
  let now = Date.now();
  queueMetrics(metrics, mongo, () => now);
  const workers = mongo.db.collection<WorkerRow>(WORKERS);
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: now - 60_000 });
  await workers.insertOne(workerRow('grading', { _id: 'a', seenAt: new Date(now) }));
  await workers.insertOne(workerRow('delivery', { _id: 'b', queues: [], seenAt: new Date(now) }));
  await postDelivery(mongo, { channel: 'email' });
  const first = await metrics.render();
  t.match(first, /^examhall_queue_due\{queue="grading"\} 1$/m);
  t.match(first, /^examhall_queue_oldest_due_seconds\{queue="grading"\} [1-9]\d/m);
  t.match(first, /^examhall_queue_due\{queue="gradenotices:parent"\} 0$/m);
  t.match(first, /^examhall_queue_unserved\{queue="grading"\} 0$/m);
  t.match(first, /^examhall_queue_unserved\{queue="delivery:email"\} 1$/m);
  t.match(first, /^examhall_workers\{actor="grading"\} 1$/m);
  for (const { name } of actorSubjects(mongo, await openNeighbours(t))) {
    if (name !== 'grading' && name !== 'delivery')
      t.match(first, new RegExp(`^examhall_workers\\{actor="${name}"\\} 0$`, 'm'), 'never started');
  }
  await workers.deleteOne({ _id: 'a' });
  t.match(await metrics.render(), /^examhall_workers\{actor="grading"\} 1$/m, 'a scrape a moment later reads nothing');
  now += 6_000;
  t.match(
    await metrics.render(),
    /^examhall_workers\{actor="grading"\} 0$/m,
    'a worker that ended in order is not counted',
  );
});

t.test('a scrape without MongoDB has no gauge values and counts the failure', async (t) => {
  const mongo = await openTestMongo(t);
  const metrics = openMetrics({ process: false });
  let now = Date.now();
  queueMetrics(metrics, mongo, () => now);
  t.match(await metrics.render(), /^examhall_queue_due\{/m);
  await mongo.client.close();
  now += 6_000;
  t.notMatch(await metrics.render(), /^examhall_(queue|workers)/m);
  t.match(
    await metrics.render(),
    /^examhall_scrape_failures_total\{metric="examhall_queue_oldest_due_seconds"\} [1-9]/m,
  );
});

t.test('a scrape counts the commands that a service refuses, and those that are held back', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const metrics = openMetrics({ process: false });
  let ahead = 0;
  queueMetrics(metrics, mongo, () => Date.now() + ahead);
  const read = async (name: string) => {
    ahead += 6_000;
    return (await metrics.render()).split('\n').filter((line) => line.startsWith(`${name}{`) && !line.endsWith(' 0'));
  };
  neighbours.answer = () => ({ status: 403 });
  const notice = await actorSubject('gradenotices', mongo, neighbours).post();
  const actor = makeActor('gradenotices', testWorkerDeps(mongo, neighbours.env));
  await runCommand(testKernel(mongo), actor, notice);
  t.strictSame(await read('examhall_dependency_refused'), [], 'for some seconds');
  ahead = 31_000;
  t.strictSame(await read('examhall_dependency_refused'), ['examhall_dependency_refused{name="notification"} 1']);
  t.strictSame(await read('examhall_queue_held_back'), []);
  ahead = 601_000;
  t.strictSame(await read('examhall_queue_held_back'), [`examhall_queue_held_back{queue="${notice.queue}"} 1`]);
  neighbours.answer = null;
  await expire(mongo, notice);
  await runCommand(testKernel(mongo), actor, notice);
  t.strictSame(await read('examhall_dependency_refused'), []);
  t.strictSame(await read('examhall_queue_held_back'), []);
  const grading = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
  await claimCommand(mongo, grading, { workerId: 'hanging', leaseMs: 7_200_000 });
  t.match(await read('examhall_queue_stillest_seconds'), [/^examhall_queue_stillest_seconds\{queue="grading"\} 6\d\d/]);
});
