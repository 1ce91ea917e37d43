import t, { type Test } from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { ask, openTestDoor } from '#testing/doors/test-door.ts';
import { landingRoute } from './landing.ts';
import { type Checks, type OperationsDeps, operationsRoutes, readiness } from './routes.ts';

const running = () => new AbortController().signal;

const up = async (): Promise<void> => undefined;
const down = (): Promise<void> => Promise.reject(new Error('connect ECONNREFUSED mongodb://user:pass@host'));
const hung = (): Promise<void> => new Promise(() => undefined);

t.test('readiness follows the state of both stores and of the drain', async (t) => {
  const draining = new AbortController();
  const asked = (checks: Checks) => readiness({ checks, draining: draining.signal, boundMs: 20 })();
  t.match(await asked({ mongodb: up, redis: up }), {
    status: 'ready',
    checks: { mongodb: { status: 'up', latencyMs: Number } },
  });
  t.match(await asked({ mongodb: up, redis: down }), {
    status: 'degraded',
    checks: { redis: { status: 'down', latencyMs: null } },
  });
  t.match(await asked({ mongodb: up, redis: hung }), { status: 'degraded' }, 'bounded');
  t.match(await asked({ mongodb: down, redis: up }), { status: 'unready' });
  t.match(await asked({ mongodb: hung, redis: hung }), { status: 'unready' });
  draining.abort();
  t.match(await asked({ mongodb: up, redis: up }), { status: 'unready' });
});

t.test('many probes share one check; draining takes effect at once', async (t) => {
  let count = 0;
  const draining = new AbortController();
  const mongodb = async (): Promise<void> => {
    count += 1;
  };
  const ask = readiness({ checks: { mongodb, redis: up }, draining: draining.signal, cacheMs: 60_000 });
  await Promise.all(Array.from({ length: 50 }, ask));
  t.match(await ask(), { status: 'ready' });
  t.equal(count, 1);
  draining.abort();
  t.match(await ask(), { status: 'unready' });
  const uncached = readiness({ checks: { mongodb, redis: up }, draining: draining.signal, cacheMs: 0 });
  await uncached();
  await uncached();
  t.equal(count, 3);
});

async function openRoutes(t: Test, change: Partial<OperationsDeps> = {}) {
  const routes = operationsRoutes({
    services: ['attempt', 'auth'],
    version: '1.2.3',
    ready: readiness({ checks: { mongodb: up, redis: up }, draining: running() }),
    metrics: openMetrics({ process: false }),
    opsToken: 'ops-token',
    production: true,
    openApi: () => ({ openapi: '3.1.0' }),
    mounted: () => [{ method: 'POST', path: '/v1/exams/:examId/start' }],
    pages: () => [],
    securityContacts: [],
    now: Date.now,
    ...change,
  });
  const { port } = await openTestDoor(t, { routes: routes.map(({ ...route }) => ({ ...route })) });
  return (path: string, ...headers: string[]) => ask(t, port, 'GET', path, headers);
}

t.test('a process serves its health, its index and the OpenAPI document', async (t) => {
  const get = await openRoutes(t);
  t.match((await get('/healthz')).json, {
    success: true,
    data: { status: 'ok', service: 'examhall', version: '1.2.3', uptimeSeconds: Number },
  });
  t.strictSame((await get('/v1')).json.data, {
    services: ['attempt', 'auth'],
    version: '1.2.3',
    routes: [{ method: 'POST', path: '/v1/exams/{examId}/start' }],
  });
  const document = await get('/openapi.json', 'X-Request-Id: mine');
  t.strictSame(document.json, { openapi: '3.1.0' });
  t.match(document.headers, { 'x-request-id': 'mine', 'content-type': /^application\/json/ });
  const single = await openRoutes(t, { services: ['attempt'] });
  t.equal((await single('/healthz')).json.data.service, 'attempt');
});

t.test('an unready /readyz answers 503 with a failure envelope and the same data', async (t) => {
  const ready = await openRoutes(t);
  t.match(await ready('/readyz'), { status: 200, json: { success: true, data: { status: 'ready' } } });
  const unready = await openRoutes(t, {
    ready: readiness({ checks: { mongodb: down, redis: down }, draining: running() }),
  });
  const reply = await unready('/readyz');
  t.match(reply, { status: 503, headers: { 'retry-after': '1' }, json: { success: false, code: 'UNAVAILABLE' } });
  t.strictSame(reply.json.data, {
    status: 'unready',
    checks: { mongodb: { status: 'down', latencyMs: null }, redis: { status: 'down', latencyMs: null } },
  });
});

t.test('HEAD on the probes is answered as GET is, without the body', async (t) => {
  const routes = operationsRoutes({
    services: [],
    version: '1',
    ready: readiness({ checks: { mongodb: down, redis: up }, draining: running() }),
    metrics: openMetrics({ process: false }),
    opsToken: undefined,
    production: false,
    openApi: () => ({}),
    mounted: () => routes,
    pages: () => [],
    securityContacts: [],
    now: Date.now,
  });
  const { port } = await openTestDoor(t, { routes });
  for (const path of ['/healthz', '/readyz']) {
    const [got, head] = [
      await ask(t, port, 'GET', path),
      await fetch(`http://127.0.0.1:${port}${path}`, { method: 'HEAD' }),
    ];
    t.equal(head.status, got.status, path);
    t.equal(await head.text(), '');
    t.ok(Number(head.headers.get('content-length')) > 0);
  }
  t.match(await ask(t, port, 'POST', '/healthz'), { status: 405, headers: { allow: 'GET, HEAD' } });
  t.match(await ask(t, port, 'GET', '/v1'), {
    json: { data: { routes: routes.map(({ method, path }) => ({ method, path })) } },
  });
});

t.test('metrics require the token in production', async (t) => {
  const metrics = openMetrics({ process: true });
  metrics.counter('things_total', 'Things', ['kind']).add({ kind: 'a' }, 2);
  const routes = operationsRoutes({
    services: [],
    version: '1',
    ready: readiness({ checks: { mongodb: up, redis: up }, draining: running() }),
    metrics,
    opsToken: 'ops-token',
    production: true,
    openApi: () => ({}),
    mounted: () => [],
    pages: () => [],
    securityContacts: [],
    now: Date.now,
  });
  const { port } = await openTestDoor(t, { routes });
  t.match(await ask(t, port, 'GET', '/metrics'), { status: 401, json: { code: 'UNAUTHENTICATED' } });
  const reply = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { authorization: 'Bearer ops-token' } });
  t.equal(reply.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  const text = await reply.text();
  t.match(text, /^things_total\{kind="a"\} 2$/m);
  t.match(text, /^process_cpu_/m);
});

t.test('the address for reports of vulnerabilities needs no identity, and is 404 until it is configured', async (t) => {
  const path = '/.well-known/security.txt';
  t.match(await (await openRoutes(t))(path), { status: 404, json: { code: 'ROUTE_NOT_FOUND' } });
  const routes = operationsRoutes({
    services: [],
    version: '1',
    ready: readiness({ checks: { mongodb: down, redis: down }, draining: running() }),
    metrics: openMetrics({ process: false }),
    opsToken: 'ops-token',
    production: true,
    openApi: () => ({}),
    mounted: () => routes,
    pages: () => [],
    securityContacts: ['mailto:security@school.example'],
    now: () => Date.UTC(2026, 4, 4),
  });
  const { port } = await openTestDoor(t, { routes });
  const reply = await fetch(`http://127.0.0.1:${port}${path}`);
  t.equal(reply.status, 200);
  t.equal(reply.headers.get('content-type'), 'text/plain; charset=utf-8');
  t.equal(reply.headers.get('x-content-type-options'), 'nosniff');
  t.match(await reply.text(), /^Contact: mailto:security@school\.example\nExpires: 2026-10-31T00:00:00\.000Z\n/);
  const { data } = (await ask(t, port, 'GET', '/v1')).json;
  t.ok(data.routes.some((route: { path: string }) => route.path === path));
});

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

async function openRoot(t: Test, { production = false, paths = ['/readyz', '/openapi.json'], console = false } = {}) {
  const mounted = () => paths.map((path) => ({ method: 'GET' as const, path }));
  const pages = () => (console ? [{ method: 'GET' as const, path: '/ops' }] : []);
  const { port } = await openTestDoor(t, {
    routes: [landingRoute({ version: '1.2.3', production, mounted, pages })],
    schemas: 'product',
  });
  return (accept: string, method = 'GET') => fetch(`http://127.0.0.1:${port}/`, { method, headers: { accept } });
}

t.test('a browser gets a page, and any other client JSON with the same links', async (t) => {
  const get = await openRoot(t);
  const page = await get(BROWSER);
  t.match(page.headers.get('content-type'), 'text/html; charset=utf-8');
  t.match(page.headers.get('content-security-policy'), /default-src 'none'/);
  t.equal(page.headers.get('vary'), 'Accept');
  t.equal(page.headers.get('x-content-type-options'), 'nosniff');
  const text = await page.text();
  const hrefs = [...text.matchAll(/href="([^"]*)"/g)].map(([, href]) => href);
  t.strictSame(hrefs, ['/openapi.json', '/readyz']);
  t.match(text, /<h1>examhall 1\.2\.3<\/h1>/);
  t.notMatch(text, /<script|<style|style=/);
  for (const accept of ['*/*', 'application/json', '']) {
    const reply = await get(accept);
    t.equal(reply.headers.get('vary'), 'Accept');
    const { data } = (await reply.json()) as { data: { links: { path: string }[]; commands: object[] } };
    t.strictSame(
      data.links.map(({ path }) => path),
      hrefs,
      accept,
    );
    t.match(data.commands, [{ command: 'npm run demo' }]);
  }
});

t.test('the root names the console and the reference only if the process serves them', async (t) => {
  const get = await openRoot(t, { paths: ['/docs'], console: true });
  t.match(await (await get(BROWSER)).text(), /href="\/ops".*href="\/docs"/s);
  t.notMatch(await (await (await openRoot(t))(BROWSER)).text(), /"\/ops"|"\/docs"/);
});

t.test('in production the root names no command', async (t) => {
  const get = await openRoot(t, { production: true });
  t.notMatch(await (await get(BROWSER)).text(), 'npm run');
  t.match(await (await get('*/*')).json(), { data: { commands: [], service: 'examhall' } });
});

t.test('HEAD on the root is answered as GET is, without the body', async (t) => {
  const get = await openRoot(t);
  for (const accept of [BROWSER, '*/*']) {
    const head = await get(accept, 'HEAD');
    t.equal(head.status, 200);
    t.equal(await head.text(), '');
    t.equal(head.headers.get('content-length'), (await get(accept)).headers.get('content-length'));
  }
});
