import { CALLERS } from '#api/http/body-budget.ts';
import type { Streams } from '#api/http/live-stream.ts';
import type { MeasuredDoor } from '#api/server.ts';
import { HTTP_SECONDS, type Metrics } from '#infra/metrics/metrics.ts';
import type { StoreStates } from '#infra/metrics/process-metrics.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { liveWorkers, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { type QueueDepth, queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { actorOf } from '#shared/kernel/command.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { heldBackOf, REFUSABLE, refusingServices } from '#shared/operations/failing-alarms.ts';
import type { Readiness } from './routes.ts';

/** Registers what a front door holds at this moment. */
export function doorMetrics(metrics: Metrics, door: MeasuredDoor, streams: Streams): void {
  metrics.gauge('examhall_http_requests_in_flight', 'Requests without a complete reply', [], (gauge) =>
    gauge.set(door.inFlight()),
  );
  metrics.gauge('examhall_body_budget_bytes', 'Bytes of request bodies in memory', ['callers'], (gauge) => {
    for (const callers of CALLERS) gauge.set(door.bodyBudget(callers).used(), { callers });
  });
  const limit = metrics.gauge('examhall_body_budget_limit_bytes', 'Bytes at which bodies are refused', ['callers']);
  for (const callers of CALLERS) limit.set(door.bodyBudget(callers).limit, { callers });
  metrics.gauge('examhall_event_streams_open', 'Open event streams', [], (gauge) => gauge.set(streams.slots.open()));
}

/** Routes of the objectives, with the statuses on which these depend. */
const OBJECTIVES = {
  '/v1/attempts/:attemptId/answers': [200, 500, 503],
  '/v1/attempts/:attemptId/submit': [200, 202, 500, 503],
} as const;

/**
 * Begins the series of requests on which the objectives of service depend, at 0. Prometheus finds no increase in a series that only
 * appears with its first error.
 */
export function beginObjectives(metrics: Metrics): void {
  const histogram = metrics.histogram(...HTTP_SECONDS);
  for (const [route, statuses] of Object.entries(OBJECTIVES)) {
    for (const status of statuses) histogram.series({ method: 'POST', route, status: String(status) });
  }
}

/** Returns the states of the stores as `/readyz` last found them. */
export function storesOf(ready: () => Promise<Readiness>): StoreStates {
  return async () => {
    const { mongodb, redis } = (await ready()).checks;
    return { mongodb: mongodb.status === 'up', redis: redis.status === 'up' };
  };
}

const FRESH_MS = 5 * SECOND;
/** Ends the help of a gauge of the cluster, because the sum over front doors would be a multiple of the value. */
const WHOLE_CLUSTER = 'Value of the whole cluster, the same at each front door: take the maximum';

interface Reading {
  at: number;
  live: WorkerRow[];
  depths: QueueDepth[];
}

/**
 * Registers gauges of the whole cluster for scaling and alarms; each scrape reads them from MongoDB. Alarm on `oldest_due`
 * rather than on a depth, because it grows only if no worker makes progress. Every front door returns the same values.
 */
export function queueMetrics(metrics: Metrics, mongo: Mongo, now: Now): void {
  let last: { at: number; reading: Promise<Reading> } | undefined;
  // All gauges of one scrape, and scrapes within FRESH_MS of each other, share one reading.
  const reading = (): Promise<Reading> => {
    if (last === undefined || now() - last.at > FRESH_MS) last = { at: now(), reading: readAll(mongo, now()) };
    return last.reading;
  };
  const perQueue = (name: string, help: string, value: (depth: QueueDepth, at: number) => number): void =>
    void metrics.gauge(name, `${help}. ${WHOLE_CLUSTER}`, ['queue'], async (gauge) => {
      // Set every queue, zeros included: otherwise an emptied queue would keep its last depth.
      const { depths, at } = await reading();
      for (const depth of depths) gauge.set(value(depth, at), { queue: depth.queue });
    });

  perQueue('examhall_queue_waiting', 'Commands not settled and not being run', (depth) => depth.waiting);
  perQueue('examhall_queue_unserved', 'Waiting commands that need a setting first', (depth) => depth.unserved);
  perQueue('examhall_queue_due', 'Commands that could be run now', (depth) => depth.due);
  perQueue('examhall_queue_running', 'Commands leased by a worker', (depth) => depth.running);
  perQueue('examhall_queue_suspects', 'Commands that run only alone', (depth) => depth.suspects.length);
  perQueue(
    'examhall_queue_held_back',
    'Commands that have failed for ten minutes and back off',
    (depth) => heldBackOf(depth)?.count ?? 0,
  );
  perQueue('examhall_dead_letters', 'Commands that ended dead and wait for an operator', (depth) => depth.dead);
  perQueue(
    'examhall_dead_letters_acknowledged',
    'Dead commands that an operator has acknowledged',
    (depth) => depth.acknowledged,
  );
  perQueue(
    'examhall_queue_oldest_due_seconds',
    'Age of the command that has been due longest',
    (depth) => (depth.oldestDueMs ?? 0) / SECOND,
  );
  perQueue(
    'examhall_queue_stillest_seconds',
    'Time since a step of the run that has stored none for longest',
    (depth, at) => (depth.stillest === null ? 0 : Math.max(0, at - depth.stillest.movedAt.getTime()) / SECOND),
  );
  metrics.gauge(
    'examhall_dependency_refused',
    `Commands that wait because the service has refused token, sender or address for 30 s. ${WHOLE_CLUSTER}`,
    ['name'],
    async (gauge) => {
      const { depths, at } = await reading();
      const refusing = Map.groupBy(refusingServices(depths, at), ({ service }) => service);
      // Set every service, zeros included: otherwise one that answers again would keep its last count.
      for (const name of new Set([...REFUSABLE, ...refusing.keys()]))
        gauge.set(
          (refusing.get(name) ?? []).reduce((sum, { commands }) => sum + commands, 0),
          { name },
        );
    },
  );
  metrics.gauge('examhall_workers', `Live worker processes. ${WHOLE_CLUSTER}`, ['actor'], async (gauge) => {
    const { live } = await reading();
    // An actor without a live worker is set to zero, because alarms fire on that value.
    for (const actor of new Set(QUEUES.map(actorOf)))
      gauge.set(live.filter((row) => row.actor === actor).length, { actor });
  });
}

async function readAll(mongo: Mongo, now: number): Promise<Reading> {
  const live = await liveWorkers(mongo, now);
  return { at: now, live, depths: await queueDepths(mongo, now, live) };
}
