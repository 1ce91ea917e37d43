import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { PATIENT_CALLS } from '#testing/actors/test-kernel.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { TOKENS, WORKERS } from '#testing/processes/cluster.ts';
import { type ClusterProcess, planProcess } from '#testing/processes/cluster-process.ts';
import { dropTestDatabase, PATIENT, requiredEnv, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { takeRedisDatabase } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { type Outside, openOutside } from './outside.ts';

export type Release = 'earlier' | 'present';

/** One database with the processes of two releases on it. */
export interface Stage {
  mongo: Mongo;
  outside: Outside;
  /** Returns the URL of a ready front door, of each in turn, as a gateway chooses it. */
  door(): Promise<string>;
  /** Starts a front door, or the workers, of a release and waits until they are ready. */
  startDoor(release: Release): Promise<void>;
  startWorkers(release: Release): Promise<void>;
  /** Sends SIGTERM and waits for the exit; another exit code than 0 is a fault. */
  stopDoor(release: Release): Promise<void>;
  /** `mayCut`: a run of a worker may be cut short, so that its exit code may be 1. */
  stopWorkers(release: Release, options?: { mayCut?: boolean }): Promise<void>;
  /** Runs the migration of a release. @throws Error if it fails */
  migrate(release: Release): Promise<void>;
  /** Faults of processes: unplanned deaths, exit codes, and lines of level 50 or more. */
  faults(): string[];
}

const START_TIMEOUT_MS = 180_000;
const PROBE_MS = 50;
const WORKER_HOST = path.join(import.meta.dirname, 'worker-host.ts');
/** `release` of the Procfile exists in every release; the operator's command is tested here too. */
const MIGRATE = { earlier: ['scripts/migrate.ts'], present: ['scripts/examhall/examhall.ts', 'migrate'] };

/** Opens a stage without any process and without a schema. `folders` have the code of the releases. */
export async function openStage(t: Teardown, folders: Readonly<Record<Release, string>>): Promise<Stage> {
  const url = requiredEnv('MONGODB_URL');
  const database = `rolling_${randomBytes(5).toString('hex')}`;
  const mongo = openMongo({ url, database, appName: 'examhall-rolling' }, PATIENT);
  const redis = await takeRedisDatabase(requiredEnv('REDIS_URL'));
  const processes = new Map<string, ClusterProcess>();
  const ready = new Map<Release, { url: string; isReady: boolean }>();
  const exits: string[] = [];
  let isOver = false;
  t.teardown(async () => {
    isOver = true;
    await Promise.all([...processes.values()].map((one) => one.kill('SIGKILL')));
    await dropTestDatabase(mongo);
    await Promise.all([mongo.close(), redis.give()]);
  });
  const outside = await openOutside(t);
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    NODE_COMPILE_CACHE_PORTABLE: process.env.NODE_COMPILE_CACHE_PORTABLE,
    NODE_ENV: 'test',
    MONGODB_URL: url,
    MONGODB_DATABASE: database,
    REDIS_URL: redis.url,
    INTERNAL_SERVICE_TOKEN: TOKENS.internal,
    OPS_TOKEN: TOKENS.ops,
    AUTH_JWT_SECRET: TOKENS.jwtSecret,
    AUTH_BCRYPT_COST: '4',
    AUTH_REFRESH_BCRYPT_COST: '4',
    // A prober that polls every 50 ms needs a fraction of it, and a busy machine more.
    DRAIN_GRACE_MS: '2000',
    ATTEMPT_GRADING_WAIT_MS: '500',
    AI_SETTLEMENT_WAIT_MS: '500',
    ATTEMPT_OVERDUE_GRACE_SECONDS: '0',
    UPKEEP_INTERVAL_MS: '500',
    ATTEMPT_OUTBOX_RETRY_BASE_MS: '1000',
    NOTIFICATION_DELIVERY_RETRY_BASE_MS: '1000',
    SHUTDOWN_TIMEOUT_MS: '8000',
    ...PATIENT_CALLS,
    ...outside.env,
  };

  async function run(name: string, plan: Pick<StartPlan, 'cwd' | 'args' | 'check'>, more: NodeJS.ProcessEnv = {}) {
    const started = processes.get(name) ?? planned({ name, ...plan, env: { ...env, ...more } });
    processes.set(name, started);
    await started.start();
  }

  async function stop(name: string, mayCut = false): Promise<void> {
    const code = await processes.get(name)?.kill('SIGTERM');
    if (code !== 0 && !(mayCut && code === 1)) exits.push(`${name} ended with exit code ${code} after SIGTERM`);
  }

  /** Keeps what is known of the readiness of a door up to date until it is stopped. */
  async function probe(release: Release, door: { url: string; isReady: boolean }): Promise<void> {
    while (!isOver && ready.get(release) === door) {
      door.isReady = (await callHttp(door.url, 'GET', '/readyz').catch(() => undefined))?.status === 200;
      await delay(PROBE_MS);
    }
  }

  let turn = 0;
  const workersOf = (release: Release) => [`${release} workers`, `${release} upkeep`];
  return {
    mongo,
    outside,
    door: () =>
      until('a front door is ready', () => {
        const open = [...ready.values()].filter(({ isReady }) => isReady);
        return open[turn++ % Math.max(1, open.length)]?.url;
      }),
    async startDoor(release) {
      const port = await freePort();
      const door = { url: `http://127.0.0.1:${port}`, isReady: false };
      const check = async () => (await callHttp(door.url, 'GET', '/readyz').catch(() => undefined))?.status === 200;
      await run(`${release} web ${port}`, { cwd: folders[release], args: ['api/main.ts'], check }, { PORT: `${port}` });
      ready.set(release, door);
      void probe(release, door);
      await until('its readiness is known', () => door.isReady);
    },
    async startWorkers(release) {
      const [host = '', upkeep = ''] = workersOf(release);
      const others = WORKERS.filter((type) => type !== 'upkeep');
      const check = (count: number) => (output: string) => output.split('"worker is ready"').length > count;
      const cwd = folders[release];
      await Promise.all([
        run(host, { cwd, args: [WORKER_HOST, ...others], check: check(others.length) }),
        run(upkeep, { cwd, args: ['workers/main.ts', 'upkeep'], check: check(1) }),
      ]);
    },
    async stopDoor(release) {
      const { url = '' } = ready.get(release) ?? {};
      await stop(`${release} web ${new URL(url).port}`);
      ready.delete(release);
    },
    async stopWorkers(release, { mayCut = false } = {}) {
      await Promise.all(workersOf(release).map((name) => stop(name, mayCut)));
    },
    migrate: (release) => runToEnd(folders[release], MIGRATE[release], env),
    faults: () => [...exits, ...[...processes.values()].flatMap((one) => [...one.crashes(), ...errorLines(one)])],
  };
}

interface StartPlan {
  name: string;
  cwd: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  check: (output: string) => boolean | Promise<boolean>;
}

function planned({ name, cwd, args, env, check }: StartPlan): ClusterProcess {
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

async function runToEnd(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (said += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  if (code !== 0) throw new Error(`${args.join(' ')} in ${cwd} ended with ${code}:\n${said.slice(-3_000)}`);
}
