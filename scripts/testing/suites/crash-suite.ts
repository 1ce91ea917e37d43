import pLimit from 'p-limit';
import type { Test } from 'tap';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import type { Command } from '#shared/kernel/command.ts';
import { PATIENT_CALLS } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { runWorkerUntil, startWorker } from '#testing/processes/worker-process.ts';
import { openTestMongo, requiredEnv, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { takeRedisDatabase } from '#testing/stores/redis-database.ts';
import { until } from '#testing/until.ts';
import { type CrashScenario, crashScenarios } from './crash-scenarios.ts';

/** Scenarios at the same time; few, because the test runner runs other files too. */
const LANES = 2;
/** Upper bound of the points of a run. A run with more points would not end. */
const MAX_POINTS = 200;

const ENV = {
  ...PATIENT_CALLS,
  WORKER_LEASE_MS: '1500',
  WORKER_POLL_INTERVAL_MS: '20',
  WORKER_RETRY_BASE_DELAY_MS: '1',
  NOTIFICATION_DELIVERY_LEASE_MS: '1500',
  NOTIFICATION_DELIVERY_RETRY_BASE_MS: '1',
  AI_CLASSIFIER_WORKER_ENABLED: '1',
  AI_CLASSIFIER_WORKER_LEASE_MS: '1500',
  AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS: '20',
  AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS: '1',
  ATTEMPT_OUTBOX_RETRY_BASE_MS: '1',
  UPKEEP_INTERVAL_MS: '3600000',
  SHUTDOWN_TIMEOUT_MS: '10000',
};

/**
 * Leases that outlast any pause of a busy machine. A live worker that loses its lease would spend an attempt that no crash explains. The
 * leases of killed workers expire while the suite visits further points.
 */
const LONG_LEASES = {
  WORKER_LEASE_MS: '10000',
  NOTIFICATION_DELIVERY_LEASE_MS: '10000',
  AI_CLASSIFIER_WORKER_LEASE_MS: '10000',
};

/** Opens a database, a Redis database and neighbours for a test that kills workers. Returns them with the environment that names them. */
export async function openLane(t: Teardown) {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  const neighbours = await openNeighbours(t);
  const redis = await takeRedisDatabase(requiredEnv('REDIS_URL'));
  t.teardown(() => redis.give());
  const stores = { MONGODB_URL: mongo.url, MONGODB_DATABASE: mongo.database, REDIS_URL: redis.url };
  // Without analytics: its events are sent in the background and would count as points of the next run.
  const { ANALYTICS_SERVICE_URL: _, ...services } = neighbours.env;
  return {
    mongo,
    neighbours,
    env: { ...ENV, ...stores, ...services, ...neighbours.webhookEnv, ...neighbours.ownersEnv },
  };
}

/** Runs each scenario of this actor and kills a worker at every point of the run. */
export async function crashSuite(t: Test, actor: string): Promise<void> {
  const scenarios = crashScenarios().filter((scenario) => scenario.actor === actor);
  if (scenarios.length === 0) throw new Error(`no crash scenario is about ${actor}`);
  const lane = pLimit(LANES);
  // A single scenario is split over the lanes by its points.
  const step = scenarios.length < LANES ? LANES : 1;
  const tasks = scenarios.flatMap((scenario) =>
    Array.from({ length: step }, (_, index) => () => crashAtEach(t, scenario, { first: index + 1, step })),
  );
  await Promise.all(tasks.map((task) => lane(task)));
}

/**
 * Posts one command for each point of the actor's run and kills the command's worker at that point. Later workers claim the command after
 * its lease has expired. At the end a worker without crash point finishes the remaining commands.
 */
async function crashAtEach(t: Test, scenario: CrashScenario, at: { first: number; step: number }): Promise<void> {
  const { mongo, neighbours, env: laneEnv } = await openLane(t);
  const env = { ...laneEnv, ...LONG_LEASES, LOG_LEVEL: 'warn' };
  const commands: Command[] = [];
  const isOver = scenario.isOver ?? (({ settledAt }: Command) => settledAt !== null);
  const isSettled = async (command: Command) => {
    const now = await readCommand(mongo, command);
    return now !== null && isOver(now);
  };
  const points: string[] = [];
  let logged = '';
  for (let point = at.first; point < MAX_POINTS; point += at.step) {
    const command = await scenario.post(mongo);
    commands.push(command);
    const crash = { commandId: command._id, point };
    const worker = startWorker(
      scenario.actor,
      { ...env, WORKER_CONCURRENCY: '1', AI_CLASSIFIER_WORKER_CONCURRENCY: '1' },
      crash,
    );
    const how = await runWorkerUntil(worker, () => isSettled(command));
    logged += worker.logged();
    if (how !== 'SIGKILL') {
      t.equal(how, '0', `a worker whose run has no point ${point} stops with exit code 0`);
      break;
    }
    points.push(worker.said().trim());
    t.comment(`${scenario.name}: died at point ${point}, ${points.at(-1)}`);
  }
  t.comment(`${scenario.name}: died at ${points.length} points: ${points.join(', ')}`);
  t.ok(points.length * at.step >= scenario.leastPoints, `${points.length} points of ${scenario.name}`);

  const healthy = startWorker(scenario.actor, env);
  for (const command of commands) await until(`${scenario.name} settled`, () => isSettled(command));
  await healthy.stop();
  logged += healthy.logged();
  const [least, most] = scenario.spent ?? [1, 2];
  for (const [index, command] of commands.entries()) {
    const now = await readCommand(mongo, command);
    t.match(now, { status: scenario.status }, `${scenario.name} after death at ${points[index]}`);
    const hasSpent = now !== null && now.attempts >= least && now.attempts <= most;
    t.ok(hasSpent, `${now?.attempts} attempts`, { now, logged: linesOf(logged, command) });
    await scenario.check(t, { mongo, neighbours }, command);
  }
  t.ok(neighbours.notices.size <= commands.length, 'every notice has the id of its command');
}

/** Returns the log lines of this command. */
function linesOf(logged: string, { _id }: Command): string[] {
  return logged.split('\n').filter((line) => line.includes(_id));
}
