import t from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { until } from '#testing/until.ts';
import { measureEventLoop } from './event-loop.ts';

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
