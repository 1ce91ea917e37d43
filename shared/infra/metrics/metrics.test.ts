import t from 'tap';
import { httpMetrics, openMetrics } from './metrics.ts';

t.test('each registry is independent, and one name returns one metric', async (t) => {
  const [one, two] = [openMetrics({ process: false }), openMetrics({ process: false })];
  one.counter('c_total', 'C', ['queue']).add({ queue: 'a' });
  one.counter('c_total', 'C', ['queue']).add({ queue: 'a' }, 2);
  one.gauge('g', 'G').set(5);
  t.match(await one.render(), /^c_total\{queue="a"\} 3$/m);
  t.match(await one.render(), /^g 5$/m);
  t.notMatch(await two.render(), /c_total/);
  t.throws(() => one.gauge('c_total', 'C'));
});

t.test('a gauge reads its source at each scrape', async (t) => {
  const metrics = openMetrics({ process: false, labels: { service: 'attempt' } });
  let depth = 1;
  metrics.gauge('depth', 'D', ['queue'], (gauge) => gauge.set(depth, { queue: 'a' }));
  t.match(await metrics.render(), /^depth\{.*queue="a".*\} 1$/m);
  depth = 2;
  t.match(await metrics.render(), /^depth\{.*service="attempt".*\} 2$/m);
});

t.test('a gauge whose source fails has no value and is counted', async (t) => {
  const metrics = openMetrics({ process: false });
  let away = false;
  const read = (): void => {
    if (away) throw new Error('store away');
  };
  metrics.gauge('depth', 'D', ['queue'], (gauge) => {
    read();
    gauge.set(7, { queue: 'a' });
  });
  metrics.gauge('age', 'A', [], async (gauge) => {
    read();
    gauge.set(7);
  });
  metrics.gauge('sound', 'S', [], (gauge) => gauge.set(1));
  const before = await metrics.render();
  t.match(before, /^depth\{queue="a"\} 7$/m);
  t.match(before, /^age 7$/m);
  t.match(before, /^examhall_scrape_failures_total\{metric="depth"\} 0$/m, 'the first failure is an increase');
  away = true;
  const during = await metrics.render();
  t.notMatch(during, /^(depth|age)\b/m, 'no old value remains');
  t.match(during, /^sound 1$/m);
  const after = await metrics.render();
  for (const metric of ['depth', 'age'])
    t.match(after, new RegExp(`^examhall_scrape_failures_total\\{metric="${metric}"\\} [1-9]`, 'm'));
  t.match(after, /metric="sound"\} 0$/m);
  away = false;
  t.match(await metrics.render(), /^depth\{queue="a"\} 7$/m);
});

t.test('requests are counted by method, route template and status', async (t) => {
  const metrics = openMetrics({ process: false });
  const observe = httpMetrics(metrics);
  observe('GET', '/v1/:id', 200, 0.02);
  observe('GET', '/v1/:id', 200, 3);
  observe('GET', '/v1/:id', 404, 0.001);
  const text = await metrics.render();
  t.match(text, /^http_request_duration_seconds_bucket\{le="0\.025",method="GET",route="\/v1\/:id",status="200"\} 1$/m);
  t.match(text, /^http_request_duration_seconds_count\{method="GET",route="\/v1\/:id",status="200"\} 2$/m);
  t.match(text, /status="404"\} 1$/m);
});

t.test(
  'a histogram counts a value in each bucket that it fits, its bound included, and finds a series by its labels',
  async (t) => {
    const metrics = openMetrics({ process: false, labels: { service: 'attempt' } });
    const sizes = metrics.histogram('size_bytes', 'Size', [1, 2.5]);
    sizes.series({ kind: 'a"b', part: 'x' })(1);
    sizes.series({ part: 'x', kind: 'a"b' })(2.5);
    metrics.histogram('size_bytes', 'Size', [1, 2.5]).series({ kind: 'a"b', part: 'x' })(9);
    sizes.series({ kind: 'other', part: 'x' })(3);
    const text = await metrics.render();
    t.match(text, '# HELP size_bytes Size\n# TYPE size_bytes histogram\n');
    const lines = text.split('\n').filter((line) => line.includes('a\\"b'));
    t.strictSame(
      lines.map((line) => [/^\w+/.exec(line)?.[0], /le="([^"]+)"/.exec(line)?.[1], line.split(' ').at(-1)]),
      [
        ['size_bytes_bucket', '1', '1'],
        ['size_bytes_bucket', '2.5', '2'],
        ['size_bytes_bucket', '+Inf', '3'],
        ['size_bytes_sum', undefined, '12.5'],
        ['size_bytes_count', undefined, '3'],
      ],
    );
    for (const line of lines) t.match(line, /service="attempt"/);
    t.match(text, /^size_bytes_count\{.*kind="other".*\} 1$/m);
  },
);
