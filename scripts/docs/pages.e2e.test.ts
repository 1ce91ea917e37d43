import t from 'tap';
import { callHttp } from '#testing/clients/http-call.ts';
import { allPages, clusterFor } from './pages.ts';
import { pageDifferences, type StepRun } from './run-page.ts';

/** Pages that show each route with a request and its reply. */
const REFERENCE = /^docs\/gateway/;
/** Routes that no page shows yet. */
const PENDING = /./;
/** Pages that are being rewritten. */
const UNDER_WORK = ['docs/gateway.md'];

/** Calls whose reply a page of the reference shows, as `GET /v1/auth/me`. */
const shown: string[] = [];
let routes: string[] = [];

for (const page of allPages()) {
  if (!page.steps.some(({ kind }) => kind === 'example') || UNDER_WORK.includes(page.file)) continue;
  t.test(`the examples of ${page.file} run as they are and answer what it shows`, async (t) => {
    const cluster = await clusterFor(t, page);
    t.strictSame(await pageDifferences(page, cluster, REFERENCE.test(page.file) ? note : undefined), []);
    routes = await routesOf(cluster.url);
  });
}

t.test('each route of the OpenAPI document is shown with a request and its reply', async (t) => {
  const missing = routes.filter((route) => !shown.some((call) => patternOf(route).test(call)));
  t.ok(routes.length > 30);
  t.strictSame(
    missing.filter((route) => !PENDING.test(route.replace(/^\w+ /, ''))),
    [],
  );
});

function note(run: StepRun): void {
  if ('received' in run || run.step.reply === null) return;
  const last = run.calls.at(-1);
  if (last !== undefined) shown.push(`${last.method} ${last.target.split('?')[0]}`);
}

async function routesOf(origin: string): Promise<string[]> {
  const { paths } = (await callHttp(origin, 'GET', '/openapi.json')).json as { paths: Record<string, object> };
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
}

/** `GET /v1/attempts/{attemptId}` fits neither `…/events` nor, being a parameter, the literal path of another route. */
function patternOf(route: string): RegExp {
  const literal = new Set(
    routes.map((one) => one.slice(one.lastIndexOf('/') + 1)).filter((last) => !last.includes('{')),
  );
  const words = [...literal].join('|');
  return new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, `(?!(?:${words})$)[^/]+`)}$`);
}
