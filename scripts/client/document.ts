import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { authRoutes } from '#api/auth/routes.ts';
import type { ClassifierDeps } from '#api/classifier/deps.ts';
import { classifierRoutes } from '#api/classifier/mount.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import { openApi } from '#api/openapi.ts';
import { auditRoutes } from '#api/operations/audit.ts';
import { type ClusterDeps, clusterRoutes } from '#api/operations/cluster.ts';
import { type DeadLetterDeps, deadLetterRoutes } from '#api/operations/dead-letters.ts';
import { examRoutes } from '#api/operations/exams.ts';
import { type TraceDeps, traceRoutes } from '#api/operations/trace.ts';
import type { Route } from '#api/route.ts';
import { VERSION } from '#infra/config/config.ts';
import type { Schemas } from '#infra/schema/validator.ts';

/**
 * Returns the OpenAPI document from which the client is generated: every `/v1` route of every service and of operators. Routes of a
 * single process, such as its health, are left out: a client calls the cluster.
 */
export function clientDocument(schemas: Schemas): object {
  return openApi({ routes: clientRoutes(), schemas, version: VERSION, title: 'examhall' });
}

/** Returns the routes. A handler of them cannot run: building a route table reads only tokens and senders of its dependencies. */
function clientRoutes(): Route[] {
  const attempt = { settings: { receiverToken: 'token', handoffSenders: ['api-gateway'] } } as unknown as AttemptDeps;
  const notification = { senderTokens: { 'bff-service': 'token' } } as unknown as NotificationDeps;
  const auth = { settings: { selfRegisterRoles: new Set() } } as unknown as AuthDeps;
  return [
    ...attemptRoutes(attempt),
    ...authRoutes(auth),
    ...classifierRoutes({ jobs: {}, previews: {}, providers: {} } as ClassifierDeps),
    ...notificationRoutes(notification),
    ...traceRoutes({} as TraceDeps),
    ...examRoutes({} as TraceDeps),
    ...clusterRoutes({} as ClusterDeps),
    ...deadLetterRoutes({} as DeadLetterDeps),
    ...auditRoutes({} as Parameters<typeof auditRoutes>[0]),
  ];
}
