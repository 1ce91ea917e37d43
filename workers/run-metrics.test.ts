import t from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { runMetrics } from './run-metrics.ts';

const LEASE_MS = 10_000;
const DUE = Date.UTC(2026, 0, 1);

/** Returns a grading command as its claim returns it, `afterMs` after it was due. */
function claimed(afterMs: number, fence: number) {
  const order = { queue: 'grading', key: 'k', subject: 'a', body: { attemptId: 'a', studentId: 's' } } as const;
  return {
    ...newCommand({ ...order, maxAttempts: 5, now: DUE }),
    fence,
    dueAt: new Date(DUE),
    lockedUntil: new Date(DUE + afterMs + LEASE_MS),
  };
}

t.test('a run is measured from its claim, a wait from when the command was due, and both begin at 0', async (t) => {
  const metrics = openMetrics({ process: false });
  const { ran, count, slotsOf } = runMetrics(metrics, { queues: ['grading'], leaseMs: LEASE_MS });
  const lines = async () => (await metrics.render()).split('\n');
  const before = await lines();
  for (const line of [
    'examhall_commands_total{queue="grading",ending="dead"} 0',
    'examhall_command_wait_seconds_count{queue="grading"} 0',
    'examhall_command_run_seconds_count{queue="grading",ending="retried"} 0',
    'examhall_command_latency_seconds_count{queue="grading",ending="dead"} 0',
  ])
    t.ok(before.includes(line), line);

  ran(claimed(1_500, 1), 'retried', 0.25);
  ran(claimed(60_000, 2), 'done', 0.5);
  count('grading', 'done');
  slotsOf({ slots: () => [{ queue: 'grading', total: 4, busy: 3 }] });
  const after = await lines();
  for (const line of [
    'examhall_commands_total{queue="grading",ending="done"} 1',
    'examhall_command_wait_seconds_count{queue="grading"} 1',
    'examhall_command_wait_seconds_sum{queue="grading"} 1.5',
    'examhall_command_run_seconds_sum{queue="grading",ending="retried"} 0.25',
    'examhall_command_latency_seconds_sum{queue="grading",ending="done"} 60.5',
    'examhall_slots{queue="grading"} 4',
    'examhall_slots_busy{queue="grading"} 3',
  ])
    t.ok(after.includes(line), line);
});

t.test('each ending is a series of its own, and a death is neither settled nor failed', async (t) => {
  const metrics = openMetrics({ process: false });
  const { count, ended } = runMetrics(metrics, { queues: ['grading'], leaseMs: LEASE_MS });
  const endings = ['done', 'rejected', 'retried', 'failed', 'snoozed', 'dead', 'not-ours', 'fenced'] as const;
  for (const [place, ending] of endings.entries()) for (let n = 0; n <= place; n += 1) count('grading', ending);
  const lines = (await metrics.render()).split('\n');
  for (const [place, ending] of endings.entries())
    t.ok(lines.includes(`examhall_commands_total{queue="grading",ending="${ending}"} ${place + 1}`), ending);
  t.strictSame(ended(), { settled: { grading: 3 }, failed: { grading: 7 }, died: { grading: 6 } });
});
