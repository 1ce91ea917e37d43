import type { Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { endHolderSessions } from '#infra/mongo/mailbox/claim.ts';
import { mailboxOf, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import type { Command, CommandStatus } from '#shared/kernel/command.ts';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { PATIENT_CALLS } from '#testing/actors/test-kernel.ts';
import { scaled } from '#testing/chance.ts';
import { type Neighbours, openNeighbours } from '#testing/neighbours/neighbours.ts';
import type { Crash } from '#testing/processes/crash-points.ts';
import { startMortalWorker } from '#testing/processes/hosted-process.ts';
import { type RunningWorker, runWorkerUntil, startWorker } from '#testing/processes/worker-process.ts';
import { openTestMongo, requiredEnv, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { takeRedisDatabase } from '#testing/stores/own-redis.ts';
import { untilSlowly } from '#testing/until.ts';

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
 * Leases of the last worker, which outlast any pause of a busy machine. A live worker that loses its lease would spend an attempt that no
 * crash explains. The workers that die have the short leases of ENV, because no other worker runs beside them.
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
  return { mongo, neighbours, env: { ...ENV, ...stores, ...neighbours.allEnv } };
}

/** A command whose worker is killed at every point of its run, and a check of the state after another worker has finished it. */
export interface CrashScenario {
  name: string;
  status: CommandStatus;
  /** Minimum number of points in a run. Fewer would mean that the suite no longer observes the run. */
  leastPoints: number;
  /** Returns whether no worker needs to run the command any more. Default: it is settled. A recurring command never settles. */
  isOver?: (command: Command) => boolean;
  /** True if `post` waits for the open transactions of dead workers. The suite ends them, before the server's own time limit does. */
  waitsForTransactions?: boolean;
  /** Commands that the worker claims, runs and settles together. The one that is watched is among them. Default: 1. */
  together?: number;
  /** Minimum and maximum of the attempts spent in the end. Default: 1 and 2. */
  spent?: readonly [number, number];
  post(mongo: Mongo, world: { neighbours: Neighbours }): Promise<Command>;
  check(t: Test, world: { mongo: Mongo; neighbours: Neighbours }, command: Command): Promise<void>;
}

/** Runs the scenarios of each actor, all at once, and lets a worker die at every point of each run. */
export async function crashSuite(t: Test, actors: Readonly<Record<string, readonly CrashScenario[]>>): Promise<void> {
  const runs = Object.entries(actors).flatMap(([actor, scenarios]) =>
    scenarios.map((scenario, index) => dieAtEach(t, { ...scenario, actor }, placesOf(index, scenarios.length))),
  );
  await Promise.all(runs);
}

/** Places of a run at which a whole process is killed, as parts of the number of its points. */
const PLACES = [0, 0.5, 1];

/**
 * Returns the places for one of several scenarios of an actor. They share the places, because each killed process costs a start: every
 * scenario has at least one, every place is in at least one scenario. With FAULTS_FULL=1 every scenario has all of them.
 */
function placesOf(index: number, scenarios: number): number[] {
  const shares = scaled(Math.min(scenarios, PLACES.length), 1);
  return PLACES.filter((_, place) => place % shares === index % shares);
}

/**
 * Posts one command for each point of the actor's run and lets the command's worker die at that point. Later workers claim the command
 * after its lease has expired. At the end a worker without crash point finishes the remaining commands.
 *
 * At every point dies a worker inside this process (`life.ts`). At the points of `places` a whole process is killed by SIGKILL as well;
 * the state after both deaths must pass the same checks.
 */
async function dieAtEach(
  t: Test,
  scenario: CrashScenario & { actor: string },
  places: readonly number[],
): Promise<void> {
  const { mongo, neighbours, env: laneEnv } = await openLane(t);
  /** Commands, each with the point at which its first worker died. */
  const deaths: { command: Command; at: string }[] = [];
  let logged = '';
  /**
   * Posts a command that is due before the commands of the earlier deaths. Otherwise a worker could first run one of those, load what both
   * need, and have fewer points in the run that is observed.
   */
  const postFirst = async () => {
    const command = await scenario.post(mongo, { neighbours });
    const nextRunAt = new Date(command.createdAt.getTime() - HOUR - deaths.length * MINUTE);
    await mailboxOf(mongo, command.queue).updateOne({ _id: command._id }, { $set: { nextRunAt } });
    return command;
  };
  const { isOver = ({ settledAt }) => settledAt !== null } = scenario;
  const hasEnded = async (command: Command) => {
    const now = await readCommand(mongo, command);
    return now !== null && isOver(now);
  };
  const visit = async (start: StartWorker, point: number): Promise<string | null> => {
    const { together = 1 } = scenario;
    const command = await postFirst();
    const beside: Command[] = [];
    while (beside.length < together - 1) beside.push(await postFirst());
    const slots = { WORKER_CONCURRENCY: `${together}`, AI_CLASSIFIER_WORKER_CONCURRENCY: '1' };
    const env = { ...laneEnv, LOG_LEVEL: 'warn', ...slots };
    const worker = await start(scenario.actor, env, { commandId: command._id, point });
    const how = await runWorkerUntil(worker, () => hasEnded(command));
    logged += worker.logged();
    if (scenario.waitsForTransactions)
      for (const id of worker.openTransactions?.() ?? []) await endHolderSessions(mongo, [id]);
    const at = how === 'SIGKILL' ? worker.said().trim() : null;
    for (const one of [command, ...beside]) deaths.push({ command: one, at: at ?? 'no point' });
    if (at === null) t.equal(how, '0', `a worker whose run has no point ${point} stops with exit code 0`);
    return at;
  };

  const points: string[] = [];
  for (let at = await visit(startMortalWorker, 1); at !== null && points.length < MAX_POINTS; ) {
    points.push(at);
    at = await visit(startMortalWorker, points.length + 1);
  }
  t.comment(`${scenario.name}: died at ${points.length} points: ${points.join(', ')}`);
  t.ok(points.length >= scenario.leastPoints, `${points.length} points of ${scenario.name}`);
  const killed: string[] = [];
  for (const place of places) {
    const wanted = Math.max(1, Math.ceil(points.length * place));
    // The order and the number of commands that a run sends at once may differ from run to run.
    for (let point = wanted, at: string | null = null; at === null && point > 0; point--) {
      at = await visit(async (...run) => startWorker(t, ...run), point);
      if (at !== null) killed.push(`${point}, ${at}`);
    }
  }
  t.comment(`${scenario.name}: processes killed at ${killed.join('; ')}`);
  t.equal(killed.length, places.length, `SIGKILL at ${places.length} of the first, the middle and the last point`);

  const healthy = await startMortalWorker(scenario.actor, { ...laneEnv, ...LONG_LEASES, LOG_LEVEL: 'warn' });
  for (const { command } of deaths) await untilSlowly(`${scenario.name} settled`, () => hasEnded(command));
  t.equal(await healthy.stop(), '0', 'the last worker stops with exit code 0');
  logged += healthy.logged();
  const [least, most] = scenario.spent ?? [1, 2];
  for (const { command, at } of deaths) {
    const now = await readCommand(mongo, command);
    t.match(now, { status: scenario.status }, `${scenario.name} after death at ${at}`);
    const hasSpent = now !== null && now.attempts >= least && now.attempts <= most;
    const lines = logged.split('\n').filter((line) => line.includes(command._id));
    t.ok(hasSpent, `${now?.attempts} attempts`, { now, logged: lines });
    await scenario.check(t, { mongo, neighbours }, command);
  }
  t.ok(neighbours.notices.size <= deaths.length, 'every notice has the id of its command');
}

type StartWorker = (name: string, env: NodeJS.ProcessEnv, crash: Crash) => Promise<RunningWorker>;
