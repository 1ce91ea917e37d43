import { hostname } from 'node:os';
import { type OpsTokens, operator } from '#api/http/guards/tokens.ts';
import type { Route, Tag } from '#api/route.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { ClusterReader } from '#infra/mongo/operations/cluster.ts';
import { storeHeldLoop, storeSample } from '#infra/mongo/operations/samples.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { BUSY_FROM_MS, type HeldLoop } from '#shared/operations/alarms.ts';

const CLUSTER: Tag = { name: 'Operations: cluster', description: 'Alarms, queues and workers of the whole cluster.' };

export interface ClusterDeps extends Required<OpsTokens> {
  cluster: ClusterReader;
}

/** Returns the routes of operators that show the whole cluster. Each returns what the command of its name prints with `--json`. */
export function clusterRoutes({ cluster, opsToken, opsReadToken }: ClusterDeps): Route[] {
  const guards = [operator({ opsToken, opsReadToken })];
  const common = { method: 'GET', tag: CLUSTER, guards, errors: [] } as const;
  return [
    {
      ...common,
      path: '/v1/ops/status',
      operation: 'getStatus',
      summary: 'Get the alarms of the cluster with their remedies',
      description:
        'States whether the cluster needs its operator: 200 in either case, and `well` is false if there is an alarm. Callers within a second of each other share one reading. `examhall status --json` prints the same.',
      replies: [{ status: 200, schema: 'operations/cluster-status', description: 'Verdict, also if there are alarms' }],
      handle: async () => ({ status: 200, data: await cluster.status() }),
    },
    {
      ...common,
      path: '/v1/ops/queues',
      operation: 'getQueues',
      summary: 'Get the depth of every queue and the load of every process type',
      description:
        'Returns the depth of every queue, and for an autoscaler the load of every process type: the slots that the work of this moment fills. No count exceeds 10,000.',
      replies: [{ status: 200, schema: 'operations/queue-list', description: 'Counts of queues and process types' }],
      handle: async () => ({ status: 200, data: await cluster.queues() }),
    },
    {
      ...common,
      path: '/v1/ops/workers',
      operation: 'getWorkers',
      summary: 'Get the live worker processes and their current work',
      description: 'Lists the live worker processes, as each described itself within the last 20 s.',
      replies: [{ status: 200, schema: 'operations/worker-list', description: 'Live worker processes' }],
      handle: async () => ({ status: 200, data: await cluster.workers() }),
    },
  ];
}

/** Interval at which a front door checks whether the sample of the minute exists: one late check costs no minute. */
const CHECK_MS = 20 * SECOND;

/**
 * Stores a sample of all queues each minute, for the charts of the console. All front doors of a cluster store one together. Each adds its own work
 * that held its event loop, for the alarm. A failed one is a gap and no more: other parts of the process report that MongoDB is unavailable.
 */
export function startSampling(deps: {
  mongo: Mongo;
  now: Now;
  log: Pick<Log, 'debug'>;
  usable: () => boolean;
  heldLoop: () => HeldLoop | null;
}): { stop(): void } {
  const { mongo, now, log, usable, heldLoop } = deps;
  let isRunning = false;
  let stored: HeldLoop | null = null;

  async function sample(): Promise<void> {
    if (isRunning || !usable()) return;
    isRunning = true;
    try {
      const at = now();
      await storeSample(mongo, at);
      const held = heldLoop();
      if (held === null || held.heldMs < BUSY_FROM_MS || held === stored) return;
      await storeHeldLoop(mongo, at, { process: `web@${hostname()}:${process.pid}`, ...held });
      stored = held;
    } catch (err) {
      log.debug({ err }, 'sample of the queues was not stored');
    } finally {
      isRunning = false;
    }
  }

  const timer = setInterval(() => void sample(), CHECK_MS);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
