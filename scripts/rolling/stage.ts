import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { freePort } from '#scripts/services/port.ts';
import { PATIENT_CALLS } from '#testing/actors/test-kernel.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { TOKENS, WORKERS } from '#testing/processes/cluster.ts';
import { type ClusterProcess, planProcess } from '#testing/processes/cluster-process.ts';
import { dropTestDatabase, PATIENT } from '#testing/stores/open-test-mongo.ts';
import { takeRedisDatabase } from '#testing/stores/redis-database.ts';
import { until } from '#testing/until.ts';
import { openRollingGateway, type RollingGateway } from './gateway.ts';
import { type Outside, openOutside } from './outside.ts';

export type Release = 'earlier' | 'present';

export interface StagePlan {
  mongodbUrl: string;
  redisUrl: string;
  /** Folders with the code of the releases. */
  folders: Readonly<Record<Release, string>>;
}

/** One database with the processes of two releases on it, behind one gateway. */
export interface Stage {
  mongo: Mongo;
  outside: Outside;
  gateway: RollingGateway;
  /** URL of a front door. */
  door(release: Release, slot?: number): string;
  /** Starts a front door and waits until the gateway sends calls to it. `isHidden`: the gateway does not know it. */
  startDoor(release: Release, options?: { slot?: number; isHidden?: boolean; env?: NodeJS.ProcessEnv }): Promise<void>;
  /** Sends SIGTERM, waits for the exit and records a fault if the exit code is not 0. */
  stopDoor(release: Release, slot?: number): Promise<void>;
  killDoor(release: Release, slot?: number): Promise<void>;
  startWorkers(release: Release): Promise<void>;
  /** `mayCut`: a run of a worker may be cut short, so that its exit code may be 1. */
  stopWorkers(release: Release, options?: { mayCut?: boolean }): Promise<void>;
  /** Restarts every worker process of a release, one after the other. Returns how many. */
  restartWorkers(release: Release): Promise<number>;
  /** Runs `examhall migrate` of a release. Returns its last line. @throws Error if it fails */
  migrate(release: Release): Promise<string>;
  /** Faults of processes: unplanned deaths, exit codes, and lines of level 50 or more. */
  faults(): string[];
  close(): Promise<void>;
}

const START_TIMEOUT_MS = 180_000;
const WORKER_HOST = path.join(import.meta.dirname, 'worker-host.ts');
/** `release` of the Procfile exists in every release; the operator's command is tested here too. */
const MIGRATE = { earlier: ['scripts/migrate.ts'], present: ['scripts/examhall.ts', 'migrate'] };

/** Opens a stage without any process and without a schema. */
export async function openStage(plan: StagePlan): Promise<Stage> {
  // Each process adds a listener for the exit of this one.
  process.setMaxListeners(100);
  const database = `rolling_${randomBytes(5).toString('hex')}`;
  const mongo = openMongo({ url: plan.mongodbUrl, database, appName: 'examhall-rolling' }, PATIENT);
  const redis = await takeRedisDatabase(plan.redisUrl);
  const ends: (() => unknown)[] = [];
  const outside = await openOutside({ teardown: (end) => void ends.push(end) });
  const gateway = await openRollingGateway();
  const processes = new Map<string, ClusterProcess>();
  const exits: string[] = [];
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    NODE_COMPILE_CACHE_PORTABLE: process.env.NODE_COMPILE_CACHE_PORTABLE,
    NODE_ENV: 'test',
    MONGODB_URL: plan.mongodbUrl,
    MONGODB_DATABASE: database,
    REDIS_URL: redis.url,
    INTERNAL_SERVICE_TOKEN: TOKENS.internal,
    OPS_TOKEN: TOKENS.ops,
    AUTH_JWT_SECRET: TOKENS.jwtSecret,
    AUTH_BCRYPT_COST: '4',
    AUTH_REFRESH_BCRYPT_COST: '4',
    // A gateway that probes every 50 ms needs a fraction of it, and a busy machine more.
    DRAIN_GRACE_MS: '2000',
    ATTEMPT_GRADING_WAIT_MS: '500',
    AI_SETTLEMENT_WAIT_MS: '500',
    ATTEMPT_OVERDUE_GRACE_SECONDS: '0',
    UPKEEP_INTERVAL_MS: '500',
    ATTEMPT_OUTBOX_RETRY_BASE_MS: '1000',
    NOTIFICATION_DELIVERY_RETRY_BASE_MS: '1000',
    AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ACTOR: '100',
    AI_CLASSIFIER_MAX_OPEN_JOBS_PER_ORGANIZATION: '100',
    SHUTDOWN_TIMEOUT_MS: '8000',
    ...PATIENT_CALLS,
    ...outside.env,
  };

  async function run(name: string, release: Release, args: string[], more: NodeJS.ProcessEnv, check: Check) {
    const started = processes.get(name) ?? planned(name, plan.folders[release], args, { ...env, ...more }, check);
    processes.set(name, started);
    await started.start();
  }

  async function stop(name: string, mayCut = false): Promise<void> {
    const process = processes.get(name);
    if (process?.pid() === undefined) return;
    const code = await process.kill('SIGTERM');
    if (code !== 0 && !(mayCut && code === 1)) exits.push(`${name} ended with exit code ${code} after SIGTERM`);
  }

  const ports = new Map<string, number>();
  const doorName = (release: Release, slot = 1) => `${release} web${slot}`;
  const door = (release: Release, slot = 1) => `http://127.0.0.1:${ports.get(doorName(release, slot))}`;
  const workersOf = (release: Release) => [...processes.keys()].filter((name) => name.startsWith(`${release} worker`));

  async function startDoor(release: Release, options: Parameters<Stage['startDoor']>[1] = {}): Promise<void> {
    const { slot = 1, isHidden = false, env: more = {} } = options;
    const name = doorName(release, slot);
    if (!ports.has(name)) ports.set(name, await freePort());
    const url = door(release, slot);
    const isReady = async () => (await callHttp(url, 'GET', '/readyz').catch(() => undefined))?.status === 200;
    // A door with other variables is another process.
    const key = isHidden ? `${name} (hidden)` : name;
    await run(key, release, ['api/main.ts'], { PORT: String(ports.get(name)), ...more }, isReady);
    if (isHidden) return;
    gateway.join(url);
    await gateway.untilReady(url);
  }

  async function startWorkers(release: Release): Promise<void> {
    const others = WORKERS.filter((type) => type !== 'upkeep');
    const isReady = (count: number) => (output: string) => output.split('"worker is ready"').length > count;
    await Promise.all([
      run(`${release} worker`, release, [WORKER_HOST, ...others], {}, isReady(others.length)),
      // Without channels: a delivery for each of the recipients of a fan-out would take most of the time.
      run(
        `${release} worker upkeep`,
        release,
        ['workers/main.ts', 'upkeep'],
        { NOTIFICATION_CHANNELS: '' },
        isReady(1),
      ),
    ]);
  }

  return {
    mongo,
    outside,
    gateway,
    door,
    startDoor,
    async stopDoor(release, slot = 1) {
      await stop(doorName(release, slot));
      gateway.leave(door(release, slot));
    },
    async killDoor(release, slot = 1) {
      const name = doorName(release, slot);
      await Promise.all([name, `${name} (hidden)`].map((one) => processes.get(one)?.kill('SIGKILL')));
    },
    startWorkers,
    async stopWorkers(release, { mayCut = false } = {}) {
      await Promise.all(workersOf(release).map((name) => stop(name, mayCut)));
    },
    async restartWorkers(release) {
      for (const name of workersOf(release)) {
        await stop(name);
        await processes.get(name)?.start();
      }
      return workersOf(release).length;
    },
    migrate: (release) => runToEnd(plan.folders[release], MIGRATE[release], env),
    faults: () => [...exits, ...[...processes.values()].flatMap((one) => [...one.crashes(), ...errorLines(one)])],
    async close() {
      await Promise.all([...processes.values()].map((one) => one.kill('SIGKILL')));
      await gateway.close();
      await Promise.all(ends.map((end) => end()));
      await dropTestDatabase(mongo);
      await Promise.all([mongo.close(), redis.give()]);
    },
  };
}

type Check = (output: string) => boolean | Promise<boolean>;

function planned(name: string, cwd: string, args: string[], env: NodeJS.ProcessEnv, check: Check): ClusterProcess {
  return planProcess({
    name,
    port: undefined,
    cwd,
    args,
    env,
    async untilReady(output, hasDied) {
      const isReady = async () => {
        if (hasDied()) throw new Error(`${name} ended while starting:\n${output().slice(-3_000)}`);
        // Polling more often would slow the start, because each poll is a request.
        await delay(20);
        return check(output());
      };
      await until(`${name} is ready`, isReady, START_TIMEOUT_MS);
    },
  });
}

/** Returns the errors that a process has logged. */
function errorLines(one: ClusterProcess): string[] {
  const lines = one.output().split('\n');
  return lines.filter((line) => /"level":(50|60)\b/.test(line)).map((line) => `${one.name}: ${line.slice(0, 600)}`);
}

async function runToEnd(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (said += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  if (code !== 0) throw new Error(`${args.join(' ')} in ${cwd} ended with ${code}:\n${said.slice(-3_000)}`);
  return said.trim().split('\n').at(-1) ?? '';
}
