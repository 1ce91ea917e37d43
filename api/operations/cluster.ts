import { type OpsTokens, operator } from '#api/http/guards/tokens.ts';
import type { Route, Tag } from '#api/route.ts';
import type { ClusterReader } from '#infra/mongo/operations/cluster.ts';

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
