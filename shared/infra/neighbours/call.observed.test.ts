import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { dependencyMetrics } from '#infra/metrics/process-metrics.ts';
import { answerJson } from '#scripts/http/local-server.ts';
import { sendToAnalytics } from './analytics.ts';

t.test('a call is counted by how it ended, and the last one decides whether the service is up', async (t) => {
  let status = 200;
  const server = createServer((_request, response) => {
    if (status === 0) response.destroy();
    else answerJson(response, { status });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const metrics = openMetrics({ process: false });
  const given = readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/', ANALYTICS_SERVICE_URL: url }, 'cluster');
  const stores = async () => ({ mongodb: true, redis: false });
  const { analytics } = dependencyMetrics(metrics, given, stores).neighbours;
  if (analytics === null) throw new Error('the service is configured');

  const up = async () => /^examhall_dependency_up\{name="analytics"\} (\d)$/m.exec(await metrics.render())?.[1];
  const count = async (outcome: string) => {
    const name = `examhall_neighbour_call_duration_seconds_count{neighbour="analytics",outcome="${outcome}"}`;
    return (await metrics.render())
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.slice(name.length + 1);
  };
  t.match(await metrics.render(), /^examhall_dependency_up\{name="redis"\} 0$/m);
  t.equal(await up(), undefined, 'it has not been called');
  t.equal(await count('failed'), '0');
  const call = () => sendToAnalytics(analytics, {} as never, { timeoutMs: 20_000 }).catch(() => undefined);
  for (const [answer, outcome, expected] of [
    [200, 'ok', '1'],
    [500, 'failed', '0'],
    [401, 'refused', '1'],
    [0, 'unanswered', '0'],
  ] as const) {
    status = answer;
    await call();
    t.equal(await count(outcome), '1', outcome);
    t.equal(await up(), expected, outcome);
  }
  const stopped = AbortSignal.abort();
  await sendToAnalytics(analytics, {} as never, { timeoutMs: 20_000, signal: stopped }).catch(() => undefined);
  t.equal(await count('unanswered'), '1', 'a call that its caller aborted is not counted');
});
