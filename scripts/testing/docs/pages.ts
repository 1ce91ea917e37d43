import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { callHttp } from '#testing/clients/http-call.ts';
import { type Document, openApi } from '#testing/doors/checked-api.ts';
import { type NeighbourCall, type Neighbours, openNeighbours } from '#testing/neighbours/neighbours.ts';
import { type ClusterOptions, startCluster, WORKERS } from '#testing/processes/cluster.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { type Page, readPage } from './page.ts';
import type { PageCluster } from './run-page.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
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

/** Returns README and every document, read. */
export function allPages(): Page[] {
  return ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT }).sort()].map(pageAt);
}

/** Returns the pages whose calls are the examples of the OpenAPI document: the reference, and the replies that it does not show. */
export function examplePages(): Page[] {
  return [...allPages().filter(({ file }) => file.startsWith('docs/gateway')), pageAt(UNSHOWN)];
}

/** Reads one document, by its path from the root of the project. */
export function pageAt(file: string): Page {
  return readPage(file, readFileSync(path.join(ROOT, file), 'utf8'));
}

/** Starts a new cluster for one page, with every worker, on the MongoDB and the Redis of the environment. */
export async function clusterFor(t: Teardown, { file }: Page): Promise<PageCluster> {
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
