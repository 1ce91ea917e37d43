import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { openLog } from '#infra/log/log.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { newCommand, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { actorOf, type Command } from '#shared/kernel/command.ts';
import { until } from '#testing/until.ts';
import { ACTORS } from './actors.ts';
import { openDifference } from './heartbeat.ts';
import { holdLease } from './life.ts';
import { startLoop } from './loop.ts';
import { runMetrics } from './run-metrics.ts';
import { openStatusServer } from './status-server.ts';
import { turnsByOrganization } from './turns.ts';

const EVERY_MS = 10_000;

/** Mocks the time of a test. */
function mockTime(t: Test): void {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
}

/** Lets the mocked time pass, and the promises that it settles. */
async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
}

t.test('the first turn runs at once, the second after the phase, and the others in the rhythm', async (t) => {
  mockTime(t);
  let turns = 0;
  const loop = startLoop({ everyMs: EVERY_MS, phase: 0.5 }, async () => {
    turns += 1;
  });
  await pass(0);
  t.equal(turns, 1);
  await pass(EVERY_MS * 0.4);
  t.equal(turns, 1);
  await pass(EVERY_MS * 0.1);
  t.equal(turns, 2);
  await pass(EVERY_MS * 0.9);
  t.equal(turns, 2);
  await pass(EVERY_MS * 0.1);
  t.equal(turns, 3);
  loop.stop();
  await pass(EVERY_MS * 2);
  t.equal(turns, 3);
});

t.test('a turn that is in progress delays the next one, and a stop during it ends the loop', async (t) => {
  mockTime(t);
  const { promise, resolve } = Promise.withResolvers<void>();
  let turns = 0;
  const loop = startLoop({ everyMs: EVERY_MS, phase: 0 }, () => {
    turns += 1;
    return promise;
  });
  await pass(0);
  await pass(EVERY_MS * 3);
  t.equal(turns, 1);
  loop.stop();
  resolve();
  await pass(EVERY_MS);
  t.equal(turns, 1);
});

/** Returns due commands of organizations named by letters: `aab` are a-0, a-1 and b-2. */
const dueOf = (letters: string) => [...letters].map((letter, n) => ({ _id: `${letter}-${n}`, organizationId: letter }));

t.test('one slot goes round the organizations, within one by age', async (t) => {
  const turns = turnsByOrganization();
  let due = dueOf('aaaabbc');
  const order: string[] = [];
  while (due.length > 0) {
    const [next] = turns.take(due, 1);
    order.push(next?._id ?? '');
    turns.end(next?._id ?? '');
    due = due.filter((command) => command !== next);
  }
  t.strictSame(order, ['a-0', 'b-4', 'c-6', 'a-1', 'b-5', 'a-2', 'a-3']);
});

t.test('several slots go to different organizations', async (t) => {
  const turns = turnsByOrganization();
  const due = dueOf('aaaaabc');
  t.strictSame(
    turns.take(due, 3).map(({ _id }) => _id),
    ['a-0', 'b-5', 'c-6'],
  );
  t.strictSame(
    turns.take(due, 5).map(({ _id }) => _id),
    ['a-1', 'a-2', 'a-3', 'a-4'],
    'running commands are taken once',
  );
});

t.test('an organization whose run is slow gets no second slot before the others', async (t) => {
  const turns = turnsByOrganization();
  const due = dueOf('sqqqqss');
  turns.take(due, 2);
  for (const [ended, expected] of [
    ['q-1', 'q-2'],
    ['q-2', 'q-3'],
  ] as const) {
    turns.end(ended);
    const left = due.filter(({ _id }) => _id > ended || _id.startsWith('s'));
    t.strictSame(
      turns.take(left, 1).map(({ _id }) => _id),
      [expected],
    );
  }
});

t.test('commands without an organization take turns as one', async (t) => {
  const turns = turnsByOrganization();
  const due = [...dueOf('aa'), { _id: 'sweep', organizationId: null }];
  t.strictSame(
    turns.take(due, 2).map(({ _id }) => _id),
    ['a-0', 'sweep'],
  );
});

t.test('a failed lease renewal is reported once and repeated; a refused one loses the lease', async (t) => {
  const outage = new Error('away');
  const told: unknown[] = [];
  let tries = 0;
  const lease = holdLease({ _id: 'c-1' } as Command, {
    leaseMs: 30,
    async renew() {
      tries += 1;
      if (tries <= 3) throw outage;
      return tries <= 5;
    },
    failed: (error) => void told.push(error),
    stop: new AbortController().signal,
  });
  t.teardown(lease.end);
  await until('three have failed', () => tries >= 3);
  t.equal(lease.lost(), false, 'a lease is not lost by an outage');
  await until('refused', () => lease.lost());
  t.ok(lease.signal.aborted);
  t.equal(tries, 6);
  t.strictSame(told, [outage]);
});

t.test('every queue is named after an existing actor, and every actor has a queue', async (t) => {
  t.strictSame([...new Set(QUEUES.map(actorOf))].sort(), Object.keys(ACTORS).sort());
});

t.test('every actor has a crash-point suite', async (t) => {
  // Several files, so that they can run in parallel.
  const found = globSync('crash-points.*.e2e.test.ts', { cwd: import.meta.dirname }).flatMap((file) => {
    const source = readFileSync(path.join(import.meta.dirname, file), 'utf8');
    const [, actors = `none in ${file}:`] = /crashSuite\(t, \{(.*?)\}\)/s.exec(source) ?? [];
    return [...actors.matchAll(/([^\s,]+):/g)].map(([, actor]) => actor);
  });
  t.strictSame(found.sort(), Object.keys(ACTORS).sort());
});

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
