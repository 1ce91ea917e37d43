import type { Metrics } from '#infra/metrics/metrics.ts';
import type { EndedRuns } from '#infra/mongo/live-workers.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Kernel, RunResult } from './life.ts';
import type { Worker } from './worker.ts';

const WAIT_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1_800];
const RUN_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const ENDINGS: readonly RunResult[] = [
  'done',
  'rejected',
  'retried',
  'failed',
  'snoozed',
  'dead',
  'not-ours',
  'fenced',
];
/** Endings after which a command runs no more. */
const LAST: ReadonlySet<RunResult> = new Set(['done', 'rejected', 'dead']);
/** The count of each ending for the charts of the console. A death is neither settled nor one of many failures. */
const COUNT_OF: Readonly<Partial<Record<RunResult, keyof EndedRuns>>> = {
  done: 'settled',
  rejected: 'settled',
  retried: 'failed',
  failed: 'failed',
  dead: 'died',
};

/** The metrics of a worker's runs. */
interface RunMetrics extends Pick<Kernel, 'count' | 'ran'> {
  /** Shows the slots of a worker, once it has opened. */
  slotsOf(worker: Pick<Worker, 'slots'>): void;
  /** Returns the number of runs of this process since its start, by how they ended and by queue. */
  ended(): EndedRuns;
}

/** Registers the metrics of the runs of these queues. Each series of a counter or histogram begins at 0. */
export function runMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge' | 'histogram'>,
  { queues, leaseMs }: { queues: readonly Queue[]; leaseMs: number },
): RunMetrics {
  const runs = metrics.counter('examhall_commands_total', 'Runs of commands by how they ended', ['queue', 'ending']);
  const wait = metrics.histogram(
    'examhall_command_wait_seconds',
    'Time from when a command was first due to its first claim',
    WAIT_BUCKETS_S,
  );
  const run = metrics.histogram(
    'examhall_command_run_seconds',
    'Time from the claim of a command to the end of its run',
    RUN_BUCKETS_S,
  );
  const latency = metrics.histogram(
    'examhall_command_latency_seconds',
    'Time from when a command was first due to its end, over all its runs',
    WAIT_BUCKETS_S,
  );
  for (const queue of queues) {
    wait.series({ queue });
    for (const ending of ENDINGS) {
      runs.add({ queue, ending }, 0);
      if (ending !== 'not-ours') run.series({ queue, ending });
      if (LAST.has(ending)) latency.series({ queue, ending });
    }
  }
  const ended = { settled: {}, failed: {}, died: {} } satisfies Record<keyof EndedRuns, Record<string, number>>;
  const slots = metrics.gauge('examhall_slots', 'Commands that the process may run at once', ['queue']);

  return {
    count(queue, ending) {
      runs.add({ queue, ending });
      const counted = COUNT_OF[ending];
      if (counted === undefined) return;
      const counts: Record<string, number> = ended[counted];
      counts[queue] = (counts[queue] ?? 0) + 1;
    },
    ended: () => ({ settled: { ...ended.settled }, failed: { ...ended.failed }, died: { ...ended.died } }),
    ran(command, ending, seconds) {
      const { queue, dueAt, lockedUntil } = command;
      run.series({ queue, ending })(seconds);
      if (dueAt === undefined || lockedUntil === null) return;
      // Both times are MongoDB's. The claim set the end of the lease.
      const waited = Math.max(0, (lockedUntil.getTime() - leaseMs - dueAt.getTime()) / 1_000);
      if (command.fence === 1) wait.series({ queue })(waited);
      if (LAST.has(ending)) latency.series({ queue, ending })(waited + seconds);
    },
    slotsOf(worker) {
      for (const { queue, total } of worker.slots()) slots.set(total, { queue });
      metrics.gauge('examhall_slots_busy', 'Commands that the process runs', ['queue'], (gauge) => {
        for (const { queue, busy } of worker.slots()) gauge.set(busy, { queue });
      });
    },
  };
}
