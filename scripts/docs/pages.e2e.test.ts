import t from 'tap';
import { callHttp } from '#testing/clients/http-call.ts';
import { allPages, clusterFor, pageAt } from './pages.ts';
import { pageDifferences, type StepRun } from './run-page.ts';

/** Pages that show each route with a request and its reply. The first one lists all routes. */
const REFERENCE = /^docs\/gateway/;
/** Calls whose reply a page of the reference shows, such as `GET /v1/auth/me`. */
const shown: string[] = [];
let routes: string[] = [];

for (const page of allPages()) {
  if (!page.steps.some(({ kind }) => kind === 'example')) continue;
  t.test(`the examples of ${page.file} run as they are and answer what it shows`, async (t) => {
    const cluster = await clusterFor(t, page);
    t.strictSame(await pageDifferences(page, cluster, REFERENCE.test(page.file) ? note : undefined), []);
    routes = await routesOf(cluster.url);
  });
}

t.test('each route of the OpenAPI document is shown with a request and its reply, and is in the list', async (t) => {
  t.ok(routes.length > 30);
  const calls = new Set(shown.map(routeOf));
  t.strictSame(
    routes.filter((route) => !calls.has(route)),
    [],
    'shown',
  );
  const { source } = pageAt('docs/gateway.md');
  t.strictSame(
    routes.filter((route) => !source.includes(`[\`${route}\`](`)),
    [],
    'in the list',
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

/** Returns the route of a call: the one with the same path, otherwise one whose parameters fit. */
function routeOf(call: string): string | undefined {
  const fits = (route: string) =>
    new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(call);
  return routes.find((route) => route === call) ?? routes.find(fits);
}
