import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { gate, until } from '#testing/until.ts';
import { openBackground, settlesWithin, withTimeout } from './background.ts';
import { type DrainDeps, drainOnSignal } from './drain.ts';
import { measureEventLoop } from './event-loop.ts';
import { inPieces } from './in-pieces.ts';
import { connectionsWithin, permittedConnections } from './open-files.ts';

const LONG_MS = 60_000;
const never = () => new Promise<never>(() => undefined);
const late = () => new Error('late');

t.test('a time limit passes on the result of work that ends in time, and leaves no timer', async (t) => {
  t.equal(await withTimeout(Promise.resolve(1), LONG_MS, late), 1);
  await t.rejects(withTimeout(Promise.reject(new Error('its own')), LONG_MS, late), { message: 'its own' });
  t.equal(await settlesWithin(Promise.resolve(), LONG_MS), true);
  await t.rejects(settlesWithin(Promise.reject(new Error('its own')), LONG_MS), { message: 'its own' });
  t.notOk(process.getActiveResourcesInfo().includes('Timeout'));
});

t.test('a time limit stops waiting for late work, and its later rejection is ignored', async (t) => {
  await t.rejects(withTimeout(never(), 1, late), { message: 'late' });
  t.equal(await settlesWithin(never(), 1), false);
  const failing = delay(20).then(() => Promise.reject(new Error('too late to matter')));
  t.equal(await settlesWithin(failing, 1), false);
  await t.rejects(failing);
});

function backgroundRig(maxWaiting = 10) {
  const seen = { dropped: 0, failed: [] as unknown[], done: 0 };
  const background = openBackground({
    concurrency: 2,
    maxWaiting,
    dropped: (count) => {
      seen.dropped += count;
    },
    failed: (error) => void seen.failed.push(error),
  });
  const work = async (until?: Promise<void>): Promise<void> => {
    await until;
    seen.done += 1;
  };
  return { seen, background, work };
}

t.test('background work that is accepted runs, and a failure is reported without stopping the rest', async (t) => {
  const { seen, background, work } = backgroundRig();
  for (let n = 0; n < 5; n++) background.run(() => work());
  background.run(() => Promise.reject(new Error('no')));
  t.equal(await background.end(60_000), 0);
  t.match(seen, { done: 5, dropped: 0, failed: [{ message: 'no' }] });
});

t.test('the end of background work drops and counts pieces that hang or still wait', async (t) => {
  const { seen, background, work } = backgroundRig();
  const never = gate();
  for (let n = 0; n < 4; n++) background.run(() => work(never.opened));
  t.equal(await background.end(1), 4);
  t.equal(seen.dropped, 4);
  background.run(() => work());
  t.equal(seen.dropped, 5, 'no more work is accepted');
  never.open();
  await new Promise(setImmediate);
  t.equal(seen.done, 2, 'waiting work never started');
});

t.test('background work beyond the waiting limit is dropped', async (t) => {
  const { seen, background, work } = backgroundRig(1);
  const hold = gate();
  // p-limit counts a new piece as waiting until the next turn of the event loop.
  for (let n = 0; n < 6; n++) {
    background.run(() => work(hold.opened));
    await new Promise(setImmediate);
  }
  t.equal(seen.dropped, 3);
  hold.open();
  t.equal(await background.end(60_000), 0);
  t.equal(seen.done, 3);
});

function drainRig(change: Partial<DrainDeps> = {}) {
  const signals = new EventEmitter();
  const steps: string[] = [];
  const exited = Promise.withResolvers<number>();
  const draining = new AbortController();
  draining.signal.addEventListener('abort', () => steps.push('unready'));
  const note = (_fields: object, message: string): void => void steps.push(message);
  const log = { debug: note, info: note, warn: note, error: note, fatal: note, child: () => log };
  drainOnSignal({
    signals: signals as unknown as DrainDeps['signals'],
    exit: (code) => exited.resolve(code),
    log,
    draining,
    close: async (ms) => {
      steps.push(`close ${ms}`);
      return true;
    },
    after: async () => {
      steps.push('after');
    },
    graceMs: 0,
    timeoutMs: 20_000,
    ...change,
  });
  return { signals, steps, exited: exited.promise };
}

t.test('SIGTERM turns the process unready, closes it and its stores, and exits 0', async (t) => {
  const { signals, steps, exited } = drainRig();
  signals.emit('SIGTERM', 'SIGTERM');
  t.equal(await exited, 0);
  t.strictSame(steps, ['draining', 'unready', 'close 20000', 'after']);
});

t.test('a second signal exits at once with 1', async (t) => {
  const { signals, exited } = drainRig({ close: () => new Promise(() => undefined) });
  signals.emit('SIGTERM');
  signals.emit('SIGINT');
  t.equal(await exited, 1);
});

t.test('a shutdown that aborts requests, or whose close fails, exits 1', async (t) => {
  for (const close of [async () => false, () => Promise.reject(new Error('no'))]) {
    const { signals, steps, exited } = drainRig({ close });
    signals.emit('SIGINT');
    t.equal(await exited, 1);
    t.ok(steps.includes('after'));
  }
});

t.test('an uncaught error is logged, drains and exits 1, and a second one changes nothing', async (t) => {
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    const { signals, steps, exited } = drainRig();
    signals.emit(event, new Error('bug'));
    signals.emit(event, new Error('bug again'));
    t.equal(await exited, 1);
    t.strictSame(steps, ['uncaught error', 'unready', 'uncaught error', 'close 20000', 'after']);
  }
});

/** Returns work of some pieces, each of which takes `ms` by the clock of the test, and that clock. */
function timedWork(pieces: number, ms: number) {
  let now = 0;
  function* work(): Pieces<string> {
    for (let piece = 0; piece < pieces; piece += 1) {
      now += ms;
      yield;
    }
    return 'done';
  }
  return { work: work(), clock: () => now };
}

t.test('work of less than ten milliseconds ends at once, without a turn of the event loop', async (t) => {
  const { work, clock } = timedWork(9, 1);
  t.equal(inPieces(work, clock), 'done');
});

t.test('long work lets the event loop serve others every ten milliseconds', async (t) => {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const { work, clock } = timedWork(100, 1);
  const running = inPieces(work, clock);
  t.type(running, Promise);
  t.equal(await running, 'done');
  isOver = true;
  t.equal(turns, 10);
});

t.test('what the work throws rejects the promise', async (t) => {
  const { work, clock } = timedWork(20, 1);
  function* failing(): Pieces<never> {
    yield* work;
    throw new Error('broken');
  }
  const running = inPieces(failing(), clock);
  t.type(running, Promise);
  await t.rejects(async () => running, { message: 'broken' });
});

const limits = (files: string) =>
  `Max processes             96103  96103  processes \nMax open files            ${files}  ${files}  files \n`;

t.test('connections leave file descriptors to the stores', async (t) => {
  t.equal(connectionsWithin(32_768, limits('1048576')), 32_768);
  t.equal(connectionsWithin(32_768, limits('20000')), 18_976);
  t.equal(connectionsWithin(32_768, limits('1024')), 256);
  t.equal(connectionsWithin(32_768, limits('unlimited')), 32_768);
  t.equal(connectionsWithin(32_768, null), 32_768);
});

t.test('a process that may open fewer files than it wants connections logs it', async (t) => {
  const lines: unknown[] = [];
  permittedConnections(1, (fields) => lines.push(fields));
  t.same(lines, []);
  const wanted = Number.MAX_SAFE_INTEGER;
  const permitted = permittedConnections(wanted, (fields) => lines.push(fields));
  t.same(lines, permitted < wanted ? [{ wanted, permitted }] : []);
});

t.test('a piece of work that holds the event loop is one long delay, until the measuring stops', async (t) => {
  const metrics = openMetrics({ process: false });
  const stop = new AbortController();
  const heldLoop = measureEventLoop({ metrics, now: Date.now, stop: stop.signal });
  const counted = async (part: string) => {
    const line = new RegExp(`^examhall_event_loop_delay_seconds_${part} (\\S+)$`, 'm').exec(await metrics.render());
    return Number(line?.[1] ?? Number.NaN);
  };
  t.equal(await counted('count'), 0, 'the series begins at 0');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
  await until('the delay is counted', async () => (await counted('count')) > 0);
  t.ok((await counted('count')) > (await counted('bucket\\{le="0.5"\\}')), 'longer than half a second');
  t.ok((heldLoop()?.heldMs ?? 0) < 500, 'a wait without work is the fault of no request');
  const endsAt = process.threadCpuUsage().user + 400_000;
  while (process.threadCpuUsage().user < endsAt);
  await until('the work is known', async () => (heldLoop()?.heldMs ?? 0) >= 200);

  stop.abort();
  const before = await counted('count');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
  await new Promise((done) => setImmediate(done));
  t.equal(await counted('count'), before);
});
