import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '#scripts/start/services/port.ts';
import { openGenerationServer } from '#testing/models/generation-server.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { isReadyAt, openStores, WORKERS } from '#testing/processes/cluster.ts';
import { type ClusterProcess, type ProcessPlan, planProcess, spawnNode } from '#testing/processes/cluster-process.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

type Release = 'earlier' | 'present';

export type Stage = Awaited<ReturnType<typeof openStage>>;

const PROBE_MS = 50;
const WORKER_HOST = path.join(import.meta.dirname, 'worker-host.ts');
/** `release` of the Procfile exists in every release; the operator's command is tested here too. */
const MIGRATE = { earlier: ['scripts/migrate.ts'], present: ['scripts/examhall/examhall.ts', 'migrate'] };

/**
 * Opens one database for the processes of two releases, without any process and without a schema. `folders` have the code of the releases.
 */
export async function openStage(t: Teardown, folders: Readonly<Record<Release, string>>) {
  const { mongo, env: own, close } = await openStores('rolling');
  const processes = new Map<string, ClusterProcess>();
  const ready = new Map<Release, { url: string; isReady: boolean }>();
  const exits: string[] = [];
  let isOver = false;
  t.teardown(async () => {
    isOver = true;
    await Promise.all([...processes.values()].map((one) => one.kill('SIGKILL')));
    await close();
  });
  const neighbours = await openNeighbours(t);
  const model = await openGenerationServer(t);
  neighbours.answer = ({ method, path: target }) => {
    const fails = /^\/hook|\/transactions$|\/v1\/events\/notification/.test(target);
    return stage.isDown && method === 'POST' && fails ? { status: 503 } : undefined;
  };
  const env: NodeJS.ProcessEnv = {
    ...own,
    // A prober that polls every 50 ms needs a fraction of it, and a busy machine more.
    DRAIN_GRACE_MS: '2000',
    ATTEMPT_GRADING_WAIT_MS: '500',
    AI_SETTLEMENT_WAIT_MS: '500',
    ATTEMPT_OVERDUE_GRACE_SECONDS: '0',
    UPKEEP_INTERVAL_MS: '500',
    ATTEMPT_OUTBOX_RETRY_BASE_MS: '1000',
    NOTIFICATION_DELIVERY_RETRY_BASE_MS: '1000',
    SHUTDOWN_TIMEOUT_MS: '8000',
    ...neighbours.env,
    ...neighbours.ownersEnv,
    ...neighbours.webhookEnv,
    ...model.env,
    QUESTION_BANK_SERVICE_URL: neighbours.url,
    AI_GENERATION_USAGE_WALLET_ENABLED: '1',
    AI_CLASSIFIER_WORKER_ENABLED: '1',
    AI_CLASSIFIER_BATCH_CONCURRENCY: '1',
  };

  async function run(plan: Omit<ProcessPlan, 'port' | 'env'>, more: NodeJS.ProcessEnv = {}) {
    const started = processes.get(plan.name) ?? planProcess({ ...plan, port: undefined, env: { ...env, ...more } });
    processes.set(plan.name, started);
    await started.start();
  }

  async function stop(name: string, mayCut = false): Promise<void> {
    const code = await processes.get(name)?.kill('SIGTERM');
    if (code !== 0 && !(mayCut && code === 1)) exits.push(`${name} ended with exit code ${code} after SIGTERM`);
  }

  /** Keeps what is known of the readiness of a door up to date until it is stopped. */
  async function probe(release: Release, door: { url: string; isReady: boolean }): Promise<void> {
    while (!isOver && ready.get(release) === door) {
      door.isReady = await isReadyAt(door.url);
      await delay(PROBE_MS);
    }
  }

  let turn = 0;
  const workersOf = (release: Release) => [`${release} workers`, `${release} upkeep`];
  const stage = {
    mongo,
    neighbours,
    model,
    /** True: the notification service, the webhook and the wallet's transactions answer 503. */
    isDown: false,
    /** Returns the URL of a ready front door, of each in turn, as a gateway chooses it. */
    door: () =>
      until('a front door is ready', () => {
        const open = [...ready.values()].filter(({ isReady }) => isReady);
        return open[turn++ % Math.max(1, open.length)]?.url;
      }),
    async startDoor(release: Release) {
      const port = await freePort();
      const door = { url: `http://127.0.0.1:${port}`, isReady: false };
      const [name, cwd, isReady] = [`${release} web ${port}`, folders[release], () => isReadyAt(door.url)];
      await run({ name, cwd, args: ['api/main.ts'], isReady }, { PORT: `${port}` });
      ready.set(release, door);
      void probe(release, door);
      await until('its readiness is known', () => door.isReady);
    },
    async startWorkers(release: Release) {
      const [host = '', upkeep = ''] = workersOf(release);
      const others = WORKERS.filter((type) => type !== 'upkeep');
      const areReady = (count: number) => (output: string) => output.split('"worker is ready"').length > count;
      const cwd = folders[release];
      await Promise.all([
        run({ name: host, cwd, args: [WORKER_HOST, ...others], isReady: areReady(others.length) }),
        run({ name: upkeep, cwd, args: ['workers/main.ts', 'upkeep'], isReady: areReady(1) }),
      ]);
    },
    /** Sends SIGTERM and waits for the exit; another exit code than 0 is a fault. */
    async stopDoor(release: Release) {
      const { url = '' } = ready.get(release) ?? {};
      await stop(`${release} web ${new URL(url).port}`);
      ready.delete(release);
    },
    /** `mayCut`: a run of a worker may be cut short, so that its exit code may be 1. */
    async stopWorkers(release: Release, { mayCut = false } = {}) {
      await Promise.all(workersOf(release).map((name) => stop(name, mayCut)));
    },
    /** Runs the migration of a release. @throws Error if it fails */
    migrate: (release: Release) => runToEnd(folders[release], MIGRATE[release], env),
    /** Faults of processes: unplanned deaths, exit codes, and lines of level 50 or more. */
    faults: () => [...exits, ...[...processes.values()].flatMap((one) => [...one.crashes(), ...errorLines(one)])],
  };
  return stage;
}

function errorLines(one: ClusterProcess): string[] {
  const lines = one.output().split('\n');
  return lines.filter((line) => /"level":(50|60)\b/.test(line)).map((line) => `${one.name}: ${line.slice(0, 600)}`);
}

async function runToEnd(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { child, ended } = spawnNode(args, { cwd, env });
  const [said, [code]] = await Promise.all([Promise.all([text(child.stdout), text(child.stderr)]), ended]);
  if (code !== 0) throw new Error(`${args.join(' ')} in ${cwd} ended with ${code}:\n${said.join('').slice(-3_000)}`);
}
