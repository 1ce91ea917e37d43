import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { openMongo } from '#infra/mongo/connect.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { PATIENT_CALLS } from '#testing/actors/test-kernel.ts';
import { callHttp, type HttpRequest } from '#testing/clients/call.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { dropTestDatabase, PATIENT, requiredEnv, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { takeRedisDatabase } from '#testing/stores/own-redis.ts';
import { type ClusterProcess, type ProcessPlan, planProcess } from './cluster-process.ts';

/** Default workers: those of the attempt service, which most tests need. */
const USUAL = ['grading', 'essayhandoff', 'resultsrelease', 'gradenotices', 'upkeep'] as const;
export const WORKERS = [...USUAL, 'examroom', 'accountnotices', 'delivery', 'classifier', 'settlement'] as const;
export type WorkerName = (typeof WORKERS)[number];

export interface ClusterOptions {
  /** Environment of every process; overrides the cluster's own. MONGODB_URL and REDIS_URL may name a proxy or another server. */
  env?: NodeJS.ProcessEnv;
  /** Environment of one process, by its name; overrides `env`. */
  envOf?: Readonly<Record<string, NodeJS.ProcessEnv>>;
  /** Number of front doors, named web1, web2, …; default 1. */
  doors?: number;
  /** Workers that start with the cluster. A type that is listed twice has two processes: grading, grading2. Default: one of each in `USUAL`. */
  workers?: readonly WorkerName[];
  /**
   * True runs the front doors and workers inside the process of the test, except those that `apart` names. It spares their starts, which
   * are most of the processor time of a cluster. Only SIGTERM can end such a front door or worker.
   */
  inside?: boolean;
  /** Names of front doors and workers that have processes of their own beside those that run inside the test: those that it kills. */
  apart?: readonly string[];
  /** Workers that run only after `start`. They are numbered after those of `workers`: beside two gradings, the next is grading3. */
  asleep?: readonly WorkerName[];
  /** Error of the wall clock in milliseconds, by the name of a process. */
  skewMs?: Readonly<Record<string, number>>;
  /** False leaves notification, profile and analytics services without configuration. */
  neighbours?: boolean;
  /** True delivers notices to the notification service of the cluster's own first front door. */
  ownNotifications?: boolean;
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

/** Tokens of every test cluster. Tests also check that no log contains them. */
export const TOKENS = {
  internal: 'internal-token-of-the-test',
  ops: 'ops-token-of-the-whole-test',
  jwtSecret: 'jwt-secret-of-the-test-that-is-long-enough',
} as const;

/** Long enough for a submit to return the grade on a busy machine. A test of the 202 sets a shorter wait. */
const GRADING_WAIT_MS = '60000';
const ROOT = path.resolve(import.meta.dirname, '../../..');

/**
 * Starts real processes of the product on the runner's MongoDB and Redis, with their own database, and waits until they are ready. Takes
 * about two seconds.
 */
export async function startCluster(t: Teardown, options: ClusterOptions = {}) {
  const processes = new Map<string, ClusterProcess>();
  let stopping: Promise<void> | undefined;
  const { mongo, env: own, close } = await openStores('e2e', options.env);
  t.teardown(() => stop());
  const neighbours = await openNeighbours(t);
  const env: NodeJS.ProcessEnv = {
    DRAIN_GRACE_MS: '0',
    ATTEMPT_GRADING_WAIT_MS: GRADING_WAIT_MS,
    ...own,
    ...(options.neighbours === false ? {} : neighbours.env),
    ...options.env,
    REDIS_URL: own.REDIS_URL,
  };
  await migrate(mongo, () => undefined, { isProbed: true });
  const plans = await plansOf(options, env);
  // The last plans are those of `options.asleep`.
  const awake = plans.slice(0, plans.length - (options.asleep ?? []).length);
  // A cluster of processes does not load the product into the test.
  const { planHosted } = options.inside === true ? await import('./hosted-process.ts') : {};
  for (const plan of plans) {
    const isApart = options.apart?.includes(plan.name) === true;
    processes.set(plan.name, isApart ? planProcess(plan) : (planHosted?.(plan, plan.actor) ?? planProcess(plan)));
  }
  await Promise.all(awake.map(({ name }) => named(name).start()));

  function named(name: string): ClusterProcess {
    const found = processes.get(name);
    if (found === undefined) throw new Error(`the cluster has no ${name}, only ${[...processes.keys()].join(', ')}`);
    return found;
  }

  function door(n = 1): { url: string; port: number } {
    const { port } = named(`web${n}`);
    if (port === undefined) throw new Error(`web${n} has no port`);
    return { url: `http://127.0.0.1:${port}`, port };
  }

  function stop(): Promise<void> {
    stopping ??= stopAll();
    return stopping;
  }

  async function stopAll(): Promise<void> {
    const crashes = [...processes.values()].flatMap((one) => one.crashes());
    await Promise.all([...processes.values()].map((one) => one.end()));
    await close();
    if (crashes.length > 0) throw new Error(`processes died without being killed: ${crashes.join('\n')}`);
  }

  return {
    door,
    mongo: mongo.db,
    neighbours,
    tokens: TOKENS,
    env,
    /** Kills every process and drops the database; the teardown calls it too. @throws Error if a process died before without `kill` */
    stop,
    /** Sends a request to front door `door`; default 1. */
    request: (method: string, target: string, { door: n, ...request }: HttpRequest & { door?: number } = {}) =>
      callHttp(door(n).url, method, target, request),
    /** Waits for the end of the process and returns its exit code, null after a signal. Returns at once for SIGSTOP and SIGCONT. */
    kill: (name: string, signal: NodeJS.Signals = 'SIGKILL') => named(name).kill(signal),
    /** Starts the process and waits until it is ready; a front door keeps its port. Does nothing if it runs. */
    start: (name: string) => named(name).start(),
    async restart(name: string, signal: NodeJS.Signals = 'SIGTERM') {
      await named(name).kill(signal);
      await named(name).start();
    },
    pid: (name: string) => named(name).pid(),
    /** Returns stdout and stderr of one process, or of all. Lines may be missing for up to 200 ms. */
    output: (name?: string) =>
      (name === undefined ? [...processes.values()] : [named(name)]).map((one) => one.output()).join(''),
  };
}

/**
 * Opens a new database and a Redis database for processes of the product, on the servers of the runner or those that `given` names. `env` names
 * them, with tokens and settings that every process of a test needs. `close` drops the database.
 */
export async function openStores(prefix: string, given: NodeJS.ProcessEnv = {}) {
  const url = given.MONGODB_URL ?? requiredEnv('MONGODB_URL');
  const database = `${prefix}_${randomBytes(6).toString('hex')}`;
  const mongo = openMongo({ url, database, appName: 'examhall-test' }, PATIENT);
  const redis = await takeRedisDatabase(given.REDIS_URL ?? requiredEnv('REDIS_URL'));
  const { PATH, HOME, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE } = process.env;
  const env = {
    ...{ PATH, HOME, NODE_COMPILE_CACHE, NODE_COMPILE_CACHE_PORTABLE },
    NODE_ENV: 'test',
    MONGODB_URL: url,
    MONGODB_DATABASE: database,
    REDIS_URL: redis.url,
    INTERNAL_SERVICE_TOKEN: TOKENS.internal,
    OPS_TOKEN: TOKENS.ops,
    AUTH_JWT_SECRET: TOKENS.jwtSecret,
    // The lowest cost that bcrypt allows, so that logins in tests are fast.
    AUTH_BCRYPT_COST: '4',
    AUTH_REFRESH_BCRYPT_COST: '4',
    ...PATIENT_CALLS,
  };
  async function close(): Promise<void> {
    await dropTestDatabase(mongo);
    await Promise.all([mongo.close(), redis.give()]);
  }
  return { mongo, env, close };
}

export async function isReadyAt(url: string): Promise<boolean> {
  return (await callHttp(url, 'GET', '/readyz').catch(() => undefined))?.status === 200;
}

/** Plan of a front door, or of the worker that `actor` names. */
interface ProductPlan extends ProcessPlan {
  readonly actor: WorkerName | undefined;
}

async function plansOf(options: ClusterOptions, env: NodeJS.ProcessEnv): Promise<ProductPlan[]> {
  const { doors = 1, workers = USUAL, asleep = [] } = options;
  const plans: ProductPlan[] = [];
  for (let n = 1; n <= doors; n++) {
    const port = await freePort();
    const isReady = () => isReadyAt(`http://127.0.0.1:${port}`);
    plans.push({ ...planOf(options, { ...env, PORT: String(port) }, `web${n}`), port, isReady });
  }
  const notifications = options.ownNotifications && { NOTIFICATION_SERVICE_URL: `http://127.0.0.1:${plans[0]?.port}` };
  const counts = new Map<WorkerName, number>();
  for (const actor of [...workers, ...asleep]) {
    const count = (counts.get(actor) ?? 0) + 1;
    counts.set(actor, count);
    const name = count === 1 ? actor : `${actor}${count}`;
    plans.push(planOf(options, { ...env, ...notifications }, name, actor));
  }
  return plans;
}

function planOf(options: ClusterOptions, env: NodeJS.ProcessEnv, name: string, actor?: WorkerName): ProductPlan {
  const skew = options.skewMs?.[name] ?? 0;
  if (skew !== 0 && options.inside === true) throw new Error('a cluster inside the test has the clock of the test');
  const preload = skew === 0 ? [] : ['--import', path.join(import.meta.dirname, 'skewed-clock.ts')];
  return {
    name,
    actor,
    port: undefined,
    cwd: ROOT,
    args: [...preload, ...(actor === undefined ? ['api/main.ts'] : ['workers/main.ts', actor])],
    env: { ...env, ...(skew === 0 ? {} : { TEST_SKEW_MS: String(skew) }), ...options.envOf?.[name] },
    isReady: (output) => output.includes('"worker is ready"'),
  };
}
