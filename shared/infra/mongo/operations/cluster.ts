import type { Mongo } from '#infra/mongo/connect.ts';
import { isUnserved, liveWorkers, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { type QueueDepth, queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import { shareRuns } from '#infra/process/health.ts';
import type { ActorLoad, ClusterStatus, QueueList, QueueState, WorkerList } from '#shared/generated/operations.ts';
import { actorOf, type Queue } from '#shared/kernel/command.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { alarmsOf, type BusyLoop, notesOf } from '#shared/operations/alarms.ts';
import { readHeldLoops } from './samples.ts';

/** Reads the live worker processes. */
export async function readWorkers(mongo: Mongo, now: number): Promise<WorkerList> {
  return workerList(await liveWorkers(mongo, now), now);
}

function workerList(live: readonly WorkerRow[], now: number): WorkerList {
  const workers = live.map((row) => ({
    id: row._id,
    actor: row.actor,
    queues: row.queues,
    host: row.host,
    pid: row.pid,
    version: row.version,
    schema: row.schema,
    startedAt: row.startedAt.toISOString(),
    seenAt: row.seenAt.toISOString(),
    slots: row.slots,
    busy: row.busy,
    rssBytes: row.rssBytes,
    unanswering: row.unanswering.map(({ name, since, lastAt }) => ({
      name,
      since: since.toISOString(),
      lastAt: lastAt.toISOString(),
    })),
  }));
  return { at: new Date(now).toISOString(), workers };
}

/** Reads the depth of every queue, and the load of every process type. */
export async function readQueues(mongo: Mongo, now: number): Promise<QueueList> {
  const live = await liveWorkers(mongo, now);
  return queueList(await queueDepths(mongo, now, live), now, live);
}

/** The queues of a list, by names that are known. */
type KnownQueues = Omit<QueueList, 'queues'> & { queues: (QueueState & { queue: Queue })[] };

function queueList(depths: readonly QueueDepth[], now: number, live: readonly WorkerRow[]): KnownQueues {
  const queues = depths.map((depth) => {
    const actor = actorOf(depth.queue);
    const { queue, waiting, unserved, due, running, dead, acknowledged, oldestDueMs } = depth;
    const workers = live.filter((row) => row.actor === actor).length;
    const suspects = depth.suspects.length;
    const counts = { waiting, unserved, due, running, suspects, dead, acknowledged, oldestDueMs };
    return { queue, actor, ...counts, workers, configured: !isUnserved(queue, actor, live) };
  });
  const actors = [...Map.groupBy(queues, ({ actor }) => actor)]
    .map(([actor, own]): ActorLoad => {
      const rows = live.filter((row) => row.actor === actor);
      const [due, running] = [sumOf(own, 'due'), sumOf(own, 'running')];
      const slots = rows.reduce((sum, row) => sum + row.slots, 0);
      const oldestDueMs = Math.round(Math.max(0, ...own.map((queue) => queue.oldestDueMs ?? 0)));
      return { actor, due, running, load: due + running, workers: rows.length, slots, oldestDueMs };
    })
    .sort((a, b) => a.actor.localeCompare(b.actor));
  return { at: new Date(now).toISOString(), queues, actors };
}

function sumOf(queues: readonly QueueState[], count: 'due' | 'running'): number {
  return queues.reduce((sum, queue) => sum + queue[count], 0);
}

/** Reads the alarms and notes of the cluster with their remedies. `redis` resolves to false if Redis stores no rings. */
export async function readStatus(mongo: Mongo, now: number, redis: () => Promise<boolean>): Promise<ClusterStatus> {
  const live = await liveWorkers(mongo, now);
  const [depths, answers, faults, doors] = await Promise.all([
    queueDepths(mongo, now, live),
    redis(),
    schemaFaults(mongo),
    readHeldLoops(mongo, now),
  ]);
  const { at, queues } = queueList(depths, now, live);
  const alarms = alarmsOf({
    queues: depths.map(withActor),
    liveActors: new Set(live.map(({ actor }) => actor)),
    redis: { answers },
    unanswering: live.flatMap(({ unanswering }) => unanswering),
    busyLoops: [...doors, ...live.flatMap(busyLoopOf)],
    now,
    schemaFaults: faults,
  });
  const [well, notes] = [alarms.length === 0, notesOf(depths.map(withActor), live, now)];
  return {
    at,
    well,
    alarms,
    notes,
    workers: live.length,
    running: sumOf(queues, 'running'),
    due: sumOf(queues, 'due'),
  };
}

function withActor(depth: QueueDepth) {
  return { ...depth, actor: actorOf(depth.queue) };
}

function busyLoopOf({ _id, heldLoop }: WorkerRow): BusyLoop[] {
  return heldLoop === null ? [] : [{ process: _id, ...heldLoop }];
}

/** Time for which a reading is used again, in milliseconds. */
const FRESH_MS = SECOND;

/** The state of the cluster for those who poll it. */
export interface ClusterReader {
  status(): Promise<ClusterStatus>;
  queues(): Promise<QueueList>;
  workers(): Promise<WorkerList>;
}

/** Opens a reader for a front door. Callers within a second of each other share one reading, so that dashboards cost MongoDB little. */
export function openClusterReader(mongo: Mongo, now: Now, redis: () => Promise<boolean>): ClusterReader {
  return {
    status: shareRuns(FRESH_MS, () => readStatus(mongo, now(), redis)),
    queues: shareRuns(FRESH_MS, () => readQueues(mongo, now())),
    workers: shareRuns(FRESH_MS, () => readWorkers(mongo, now())),
  };
}
