import t from 'tap';
import { readExamples } from '#api/openapi-examples.ts';
import { examplesOf, type Operations, operationsAt, type Success, successesOf } from './operation-examples.ts';
import { allPages, clusterFor, examplePages, pageAt } from './pages.ts';
import { pageDifferences, type StepRun } from './run-page.ts';

/** Pages whose calls are the examples of the OpenAPI document; those of docs/gateway show each route with a request and its reply. */
const reference = new Map(examplePages().map((page) => [page.file, page]));
/** Routes whose reply a page of the reference shows, such as `GET /v1/auth/me`. */
const shown = new Set<string | undefined>();
const successes: Success[] = [];
let operations: Operations | undefined;

for (const page of new Map([...allPages().map((one) => [one.file, one] as const), ...reference]).values()) {
  if (!page.steps.some(({ kind }) => kind === 'example')) continue;
  t.test(`the examples of ${page.file} run as they are and answer what it shows`, async (t) => {
    const cluster = await clusterFor(t, page);
    const runs: StepRun[] = [];
    t.strictSame(await pageDifferences(page, cluster, (run) => runs.push(run)), []);
    if (!reference.has(page.file)) return;
    operations = await operationsAt(cluster.url);
    successes.push(...successesOf(runs, operations));
    for (const run of runs) note(run, operations);
  });
}

t.test('the examples of the OpenAPI document are what these pages send and receive', async (t) => {
  const stored = readExamples();
  t.strictSame(examplesOf(successes, stored), stored, 'run `node scripts/docs/record.ts --examples`');
});

t.test('each route of the OpenAPI document is shown with a request and its reply, and is in the list', async (t) => {
  const routes = operations?.routes ?? [];
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

function note(run: StepRun, { find }: Operations): void {
  if ('received' in run || run.step.reply === null) return;
  const last = run.calls.at(-1);
  if (last !== undefined) shown.add(find(last)?.route);
}
