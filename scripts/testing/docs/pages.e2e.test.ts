import { writeFileSync } from 'node:fs';
import t from 'tap';
import { EXAMPLES, readExamples } from '#api/openapi-examples.ts';
import { examplesOf, type Success, successesOf } from './operation-examples.ts';
import { allPages, clusterFor, examplePages, pageAt } from './pages.ts';
import { pageDifferences } from './run-page.ts';

/** Pages whose calls are the examples of the OpenAPI document; those of docs/gateway show each route with a request and its reply. */
const reference = new Map(examplePages().map((page) => [page.file, page]));
/** Routes whose reply a page of the reference shows, such as `GET /v1/auth/me`. */
const shown = new Set<string | undefined>();
const successes: Success[] = [];
let routes: readonly string[] = [];

for (const page of new Map([...allPages().map((one) => [one.file, one] as const), ...reference]).values()) {
  if (!page.steps.some(({ kind }) => kind === 'example')) continue;
  t.test(`the examples of ${page.file} run as they are and answer what it shows`, async (t) => {
    const cluster = await clusterFor(t, page);
    const { api } = cluster;
    const found = await pageDifferences(t, page, cluster, (run, ids) => {
      if (!reference.has(page.file)) return;
      successes.push(...successesOf(run, api, ids));
      const last = run.calls.at(-1);
      if (run.step.reply !== null && last !== undefined) shown.add(api.find(last.method, last.target)?.route);
    });
    t.strictSame(found, []);
    routes = api.routes;
  });
}

t.test('the examples of the OpenAPI document are what these pages send and receive', async (t) => {
  const stored = readExamples();
  const examples = examplesOf(successes, stored);
  if (process.env.RECORD_EXAMPLES === '1') writeFileSync(EXAMPLES, `${JSON.stringify(examples, null, 2)}\n`);
  else t.strictSame(examples, stored, 'RECORD_EXAMPLES=1 writes them');
});

t.test('each route of the OpenAPI document is shown with a request and its reply, and is in the list', async (t) => {
  t.ok(routes.length > 30);
  t.strictSame(
    routes.filter((route) => !shown.has(route)),
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
