import { spawnSync } from 'node:child_process';
import t from 'tap';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { authRoutes } from '#api/auth/routes.ts';
import type { ClassifierDeps } from '#api/classifier/deps.ts';
import { classifierRoutes } from '#api/classifier/mount.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import { type ClusterDeps, clusterRoutes } from '#api/operations/cluster.ts';
import { type DeadLetterDeps, deadLetterRoutes } from '#api/operations/dead-letters.ts';
import { examRoutes } from '#api/operations/exams.ts';
import { type SubscriptionDeps, subscriptionRoutes } from '#api/operations/subscriptions.ts';
import { type TraceDeps, traceRoutes } from '#api/operations/trace.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { openApi, unansweredCodes } from './openapi.ts';

// Building the route table reads only tokens and senders of its dependencies.
const attempt = { settings: { receiverToken: 'token', handoffSenders: ['api-gateway'] } } as unknown as AttemptDeps;
const notification = { senderTokens: { 'bff-service': 'token' } } as unknown as NotificationDeps;
const auth = { settings: { selfRegisterRoles: new Set() } } as unknown as AuthDeps;
const classifier = { jobs: {}, previews: {}, providers: {} } as ClassifierDeps;
const routes = [
  ...attemptRoutes(attempt),
  ...authRoutes(auth),
  ...classifierRoutes(classifier),
  ...notificationRoutes(notification),
  ...traceRoutes({} as TraceDeps),
  ...clusterRoutes({} as ClusterDeps),
  ...examRoutes({} as TraceDeps),
  ...deadLetterRoutes({} as DeadLetterDeps),
  ...subscriptionRoutes({} as SubscriptionDeps),
];

t.test('a route or the server returns every code of the catalogue', async (t) => {
  // This code appears only in the `error` of a job and of its questions, never as a reply.
  t.strictSame(unansweredCodes(routes), ['AI_QUESTION_CONTEXT_FAILED']);
});

t.test('the document of the mounted table satisfies the OpenAPI linter', async (t) => {
  const document = openApi({ routes, schemas: loadSchemas(), version: '1.0.0', title: 'examhall' });
  const dir = t.testdir({ 'redocly.yaml': 'extends: [spec]\n', 'openapi.json': JSON.stringify(document) });
  const cli = new URL('../node_modules/@redocly/cli/bin/cli.js', import.meta.url).pathname;
  const lint = spawnSync(process.execPath, [cli, 'lint', `${dir}/openapi.json`, '--config', `${dir}/redocly.yaml`], {
    encoding: 'utf8',
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  });
  t.equal(lint.status, 0, `${lint.stdout}${lint.stderr}`);
});
