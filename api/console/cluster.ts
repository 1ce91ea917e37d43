import { liveWorkers, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { actorOf } from '#infra/mongo/mailbox/commands.ts';
import { type QueueDepth, queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import { withTimeout } from '#infra/process/background.ts';
import { shareRuns } from '#infra/process/health.ts';
import { type Alarm, alarmsOf } from '#shared/operations/alarms.ts';
import type { ConsoleDeps } from './screen.ts';

/** The cluster as the overview and the tables of queues and workers show it. */
export interface Cluster {
  depths: readonly (QueueDepth & { actor: string })[];
  live: readonly WorkerRow[];
  alarms: readonly Alarm[];
}

const REDIS_WAIT_MS = 500;
/** Time for which readers share a reading (ms). Each one costs MongoDB four small queries a queue. */
const SHARED_MS = 1_000;

/** Returns a function that reads the cluster. */
export function openCluster({ mongo, now, pingRedis }: ConsoleDeps): () => Promise<Cluster> {
  return shareRuns(SHARED_MS, async () => {
    const live = await liveWorkers(mongo, now());
    const [depths, answers, faults] = await Promise.all([
      queueDepths(mongo, now(), live),
      withTimeout(pingRedis(), REDIS_WAIT_MS, () => new Error('no answer in time')).then(
        () => true,
        () => false,
      ),
      schemaFaults(mongo),
    ]);
    const queues = depths.map((depth) => ({ ...depth, actor: actorOf(depth.queue) }));
    const liveActors = new Set(live.map(({ actor }) => actor));
    const unanswering = live.flatMap((row) => row.unanswering ?? []);
    const facts = { queues, liveActors, redis: { answers }, unanswering, now: now(), schemaFaults: faults };
    return { depths: queues, live, alarms: alarmsOf(facts) };
  });
}
