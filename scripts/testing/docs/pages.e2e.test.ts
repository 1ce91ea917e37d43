import { writeFileSync } from 'node:fs';
import t from 'tap';
import { EXAMPLES, readExamples } from '#api/openapi-examples.ts';
import { callHttp } from '#testing/clients/call.ts';
import { type Document, openApi } from '#testing/doors/checked-api.ts';
import { type NeighbourCall, type Neighbours, openNeighbours } from '#testing/neighbours/neighbours.ts';
import { type ClusterOptions, startCluster, WORKERS } from '#testing/processes/cluster.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { examplesOf, type Success, successesOf } from './compare.ts';
import { allPages, type Page, pageAt } from './page.ts';
import { type PageCluster, pageDifferences } from './run-page.ts';

/** Page of replies that no document shows, which are examples in the OpenAPI document. Without workers, what waits for them is 202. */
const UNSHOWN = 'scripts/testing/docs/unshown-replies.md';
/** Settings that `npm start` makes in development, where a reader pastes the examples. */
const AS_BY_NPM_START: NodeJS.ProcessEnv = {
  INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
  OPS_TOKEN: 'dev-ops-token',
  AI_CLASSIFIER_PROVIDER: 'mock',
  AI_CLASSIFIER_WORKER_ENABLED: '1',
  AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
};
/** Options of the cluster of a page, beside every worker. `receiver` is one more server that it may call: a page shows the calls of both. */
const NEEDS: Readonly<Record<string, (receiver: Neighbours) => ClusterOptions>> = {
  'README.md': () => ({ ownNotifications: true }),
  [UNSHOWN]: () => ({ env: { ATTEMPT_GRADING_WAIT_MS: '0' }, workers: [] }),
  'docs/gateway.md': () => ({ env: { SECURITY_CONTACT: 'mailto:security@school.example' } }),
  'docs/gateway/paid-generation.md': ({ url, ownersEnv }) => ({
    env: { ...ownersEnv, QUESTION_BANK_SERVICE_URL: url, AI_GENERATION_USAGE_WALLET_ENABLED: '1' },
  }),
  'docs/gateway/notification.md': () => ({
    env: {
      NOTIFICATION_UNSUBSCRIBE_URL: 'https://api.school.example/v1/notifications/unsubscribe',
      NOTIFICATION_UNSUBSCRIBE_SECRET: 'secret-of-the-example-in-the-documents',
    },
  }),
  'docs/webhook.md': ({ webhookEnv }) => ({ env: webhookEnv }),
};

/** Starts a new cluster for one page, with every worker, on the MongoDB and the Redis of the environment. */
async function clusterFor(t: Teardown, { file }: Page): Promise<PageCluster> {
  // Each process of a cluster adds a listener to the end of this process.
  process.setMaxListeners(100);
  const receiver = await openNeighbours(t);
  const { env, ...needs } = NEEDS[file]?.(receiver) ?? {};
  const cluster = await startCluster(t, {
    workers: WORKERS,
    inside: true,
    ...needs,
    env: { ...AS_BY_NPM_START, ...env },
  });
  const { url } = cluster.door();
  const sent = ({ method, path: target, headers, body }: NeighbourCall) => {
    const flat = Object.entries(headers).map(([name, value]) => [name, String(value)]);
    return { method, path: target, headers: Object.fromEntries(flat), body };
  };
  return {
    url,
    api: openApi((await callHttp(url, 'GET', '/openapi.json')).json as Document),
    received: () => [...cluster.neighbours.calls, ...receiver.calls].map(sent),
  };
}

/** Pages whose calls are the examples of the OpenAPI document. Those of docs/gateway show each route with a request and its reply. */
const reference = new Map(
  [...allPages().filter(({ file }) => file.startsWith('docs/gateway')), pageAt(UNSHOWN)].map((page) => [
    page.file,
    page,
  ]),
);
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
