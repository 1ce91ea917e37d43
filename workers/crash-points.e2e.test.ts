import pLimit from 'p-limit';
import t, { type Test } from 'tap';
import { attempts } from '../shared/infra/mongo/attempt/collections.ts';
import { NOTICES } from '../shared/infra/mongo/mailbox/mailbox.ts';
import { readCommand } from '../shared/infra/mongo/mailbox/read-command.ts';
import { migrate } from '../shared/infra/mongo/schema/migrate.ts';
import type { Command } from '../shared/kernel/command.ts';
import { type CrashScenario, crashScenarios } from '../shared/testing/crash-scenarios.ts';
import { openNeighbours } from '../shared/testing/neighbours.ts';
import { openTestMongo, requiredEnv } from '../shared/testing/open-test-mongo.ts';
import { takeRedisDatabase } from '../shared/testing/redis-database.ts';
import { postGrading, SUBMITTED, storeAttempt } from '../shared/testing/stored-attempts.ts';
import { until } from '../shared/testing/until.ts';
import { runWorkerUntil, startWorker, warmUpWorkers } from '../shared/testing/worker-process.ts';

const LANES = 3;
/** More than any run has; a run with more points than this is a run that does not end. */
const MOST_POINTS = 200;
const SHARED_FROM = 20;

const ENV = {
  ...{ WORKER_LEASE_MS: '1500', WORKER_POLL_INTERVAL_MS: '20', WORKER_RETRY_BASE_DELAY_MS: '1' },
  ...{ ATTEMPT_OUTBOX_RETRY_BASE_MS: '1', UPKEEP_INTERVAL_MS: '3600000', SHUTDOWN_TIMEOUT_MS: '10000' },
};

async function openLane(t: Parameters<typeof openTestMongo>[0]) {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined);
  const neighbours = await openNeighbours(t);
  const redis = await takeRedisDatabase(requiredEnv('REDIS_URL'));
  t.teardown(() => redis.give());
  const stores = { MONGODB_URL: mongo.url, MONGODB_DATABASE: mongo.database, REDIS_URL: redis.url };
  // Without analytics: what is told there is told beside the runs, and would be counted among the next one's points.
  const { ANALYTICS_SERVICE_URL: _, ...services } = neighbours.env;
  return { mongo, neighbours, env: { ...ENV, ...stores, ...services } };
}

/**
 * One command for each point of its actor's run. The worker of each dies at its point; those that follow find what it
 * left when its lease is over, and at last a healthy one clears up.
 */
async function crashAtEach(t: Test, scenario: CrashScenario, first: number, step: number): Promise<void> {
  const { mongo, neighbours, env } = await openLane(t);
  const commands: Command[] = [];
  const isSettled = async (command: Command) =>
    (await readCommand(mongo, command.queue, command._id))?.settledAt !== null;
  const points: string[] = [];
  for (let point = first; point < MOST_POINTS; point += step) {
    const command = await scenario.post(mongo);
    commands.push(command);
    const crash = { commandId: command._id, point };
    const worker = startWorker(scenario.actor, { ...env, WORKER_CONCURRENCY: '1' }, crash);
    const how = await runWorkerUntil(worker, () => isSettled(command));
    if (how !== 'SIGKILL') {
      t.equal(how, '0', `a worker that reached no point ${point} ended in order`);
      break;
    }
    points.push(worker.said().trim());
    t.comment(`${scenario.name}: died at point ${point}, ${points.at(-1)}`);
  }
  t.comment(`${scenario.name}: died at ${points.length} points: ${points.join(', ')}`);
  t.ok(points.length * step >= scenario.leastPoints, `${points.length} points of ${scenario.name}`);

  const healthy = startWorker(scenario.actor, env);
  for (const command of commands) await until(`${scenario.name} settled`, () => isSettled(command));
  await healthy.stop();
  for (const [index, command] of commands.entries()) {
    const now = await readCommand(mongo, command.queue, command._id);
    t.match(now, { status: scenario.status }, `${scenario.name} after death at ${points[index]}`);
    t.ok(now !== null && now.attempts >= 1 && now.attempts <= 2, `${now?.attempts} attempts`);
    await scenario.check(t, { mongo, neighbours }, command);
  }
  t.ok(neighbours.notices.size <= commands.length, 'nothing was sent under another id');
}

t.test('a worker killed at any await of its run loses nothing and doubles nothing', { timeout: 170_000 }, async (t) => {
  warmUpWorkers();
  const lane = pLimit(LANES);
  const tasks = crashScenarios().flatMap((scenario) =>
    // The longest first and shared out, so that the lanes end together.
    scenario.leastPoints < SHARED_FROM
      ? [{ scenario, first: 1, step: 1 }]
      : [1, 2].map((first) => ({ scenario, first, step: 2 })),
  );
  await Promise.all(tasks.map(({ scenario, first, step }) => lane(() => crashAtEach(t, scenario, first, step))));
});

t.test('a command that kills every worker ends dead and holds nobody up', async (t) => {
  const { mongo, env } = await openLane(t);
  const poison = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 2 });
  const others: Command[] = [];
  for (let n = 0; n < 5; n++) others.push(await postGrading(mongo, await storeAttempt(mongo, SUBMITTED)));
  const read = (command: Command) => readCommand(mongo, command.queue, command._id);
  let deaths = 0;
  while ((await read(poison))?.status === 'PENDING') {
    const worker = startWorker('grading', { ...env, WORKER_CONCURRENCY: '2' }, { commandId: poison._id, point: 0 });
    const how = await runWorkerUntil(worker, async () => (await read(poison))?.status === 'DEAD');
    if (how === 'SIGKILL') deaths += 1;
  }
  // The rig kills at the claim that buries as well.
  t.ok(deaths === 2 || deaths === 3, `${deaths} workers died`);
  t.match(await read(poison), { status: 'DEAD', attempts: 2, lastError: { fingerprint: 'WorkerLost' } });
  const healthy = startWorker('grading', env);
  for (const other of others) await until('the others are graded', async () => (await read(other))?.status === 'DONE');
  await healthy.stop();
  t.match(await attempts(mongo).findOne({ _id: poison.subject }), { status: 'SUBMITTED' });
  t.equal(await mongo.db.collection(NOTICES).countDocuments({ 'body.attemptId': poison.subject }), 0);
});
