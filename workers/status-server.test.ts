import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { openLog } from '#infra/log/log.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { openDifference } from './heartbeat.ts';
import { runMetrics } from './run-metrics.ts';
import { openStatusServer } from './status-server.ts';

const OPS_READ_TOKEN = 'read-token-of-a-worker-in-a-test';

/** Opens a production worker's status server. Returns a function that sends bytes to it and returns the whole answer. */
async function open(t: Test, isReady = async () => true): Promise<(bytes: string) => Promise<string>> {
  const { log } = openLog({ level: 'silent', name: 'test' });
  const metrics = openMetrics({ process: false });
  const server = openStatusServer({
    host: '127.0.0.1',
    port: 0,
    metrics,
    log,
    opsReadToken: OPS_READ_TOKEN,
    production: true,
    isReady,
  });
  t.teardown(() => server.close());
  await once(server, 'listening');
  return async (bytes) => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.write(bytes);
    return text(socket);
  };
}

const get = (path: string, ...headers: string[]) => request('GET', path, ...headers);
const request = (method: string, path: string, ...headers: string[]) =>
  `${method} ${path} HTTP/1.1\r\n${headers.map((line) => `${line}\r\n`).join('')}Connection: close\r\n\r\n`;

t.test('every reply of a worker forbids a browser to guess its type', async (t) => {
  const send = await open(t);
  for (const [bytes, status] of [
    [get('/healthz', 'Host: a'), 200],
    [get('/readyz', 'Host: a'), 200],
    [get('/metrics', 'Host: a', `Authorization: Bearer ${OPS_READ_TOKEN}`), 200],
    [get('/metrics', 'Host: a', 'Authorization: Bearer other'), 401],
    [get('/other', 'Host: a'), 404],
    [get('/healthz'), 200],
    ['not HTTP\r\n\r\n', 400],
  ] as const) {
    const reply = await send(bytes);
    t.match(reply, new RegExp(`^HTTP/1\\.1 ${status} `), bytes);
    t.match(reply, /\r\nX-Content-Type-Options: nosniff\r\n/, bytes);
  }
});

t.test('/readyz checks again at each call, and HEAD has the same head without a body', async (t) => {
  let isReady = true;
  const send = await open(t, async () => isReady);
  t.match(await send(get('/readyz', 'Host: a')), /^HTTP\/1\.1 200 .*\r\n\r\nready\n$/s);
  t.match(await send(request('HEAD', '/healthz', 'Host: a')), /^HTTP\/1\.1 200 .*\r\n\r\n$/s);
  isReady = false;
  t.match(await send(get('/readyz', 'Host: a')), /^HTTP\/1\.1 503 .*\r\n\r\nunready\n$/s);
  t.match(await send(request('HEAD', '/readyz', 'Host: a')), /^HTTP\/1\.1 503 .*\r\n\r\n$/s);
});

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

t.test('a heartbeat counts what was settled within the last minute', async (t) => {
  const counts: Record<string, number> = { grading: 100 };
  const beat = openDifference(() => ({ ...counts }));
  t.strictSame(beat(), { grading: 0 }, 'not what was settled before the start');
  for (let second = 5; second <= 60; second += 5) {
    counts.grading = (counts.grading ?? 0) + 1;
    beat();
  }
  counts.upkeep = 3;
  t.strictSame(beat(), { grading: 11, upkeep: 3 }, 'the settles of twelve beats, and of a new queue');
  for (let second = 0; second < 60; second += 5) beat();
  t.strictSame(beat(), { grading: 0, upkeep: 0 }, 'a quiet minute');
});
