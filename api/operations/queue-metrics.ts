import type { Metrics } from '../../shared/infra/metrics/metrics.ts';
import type { Mongo } from '../../shared/infra/mongo/connect.ts';
import { liveWorkers } from '../../shared/infra/mongo/live-workers.ts';
import { MAILBOX_OF } from '../../shared/infra/mongo/mailbox/mailbox.ts';
import { type QueueDepth, queueDepths } from '../../shared/infra/mongo/mailbox/queue-depths.ts';
import { type Now, SECOND } from '../../shared/kernel/clock.ts';

const FRESH_MS = 5 * SECOND;

/**
 * Gauges of the whole cluster, read from MongoDB at a scrape: what to scale and alarm on. `oldest_due` is the better
 * alarm than a depth: it grows only when nobody works. Every front door tells the same.
 */
export function queueMetrics(metrics: Metrics, mongo: Mongo, now: Now): void {
  let read: { at: number; depths: Promise<QueueDepth[]> } | undefined;
  // Several gauges of one scrape, and several scrapes of a few seconds, share one reading.
  const depths = (): Promise<QueueDepth[]> => {
    if (read === undefined || now() - read.at > FRESH_MS) read = { at: now(), depths: queueDepths(mongo, now()) };
    return read.depths;
  };
  const perQueue = (name: string, help: string, value: (depth: QueueDepth | undefined) => number): void =>
    void metrics.gauge(name, help, ['queue'], async (gauge) => {
      const found = await depths();
      // Zero as well: a queue that was emptied must not go on showing its last depth.
      for (const queue of Object.keys(MAILBOX_OF))
        gauge.set(value(found.find((depth) => depth.queue === queue)), { queue });
    });

  perQueue('examhall_queue_waiting', 'Commands not settled and not being run', (depth) => depth?.waiting ?? 0);
  perQueue('examhall_queue_due', 'Commands that could be run now', (depth) => depth?.due ?? 0);
  perQueue('examhall_queue_running', 'Commands leased by a worker', (depth) => depth?.running ?? 0);
  perQueue('examhall_dead_letters', 'Commands that ended dead and wait for an operator', (depth) => depth?.dead ?? 0);
  perQueue(
    'examhall_queue_oldest_due_seconds',
    'Age of the command that has been due longest',
    (depth) => (depth?.oldestDueMs ?? 0) / SECOND,
  );
  metrics.gauge('examhall_workers', 'Live worker processes', ['actor'], async (gauge) => {
    const rows = await liveWorkers(mongo, now());
    for (const [actor, count] of rows) gauge.set(count, { actor });
  });
}
