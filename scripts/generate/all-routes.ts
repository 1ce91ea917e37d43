import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { authRoutes } from '#api/auth/routes.ts';
import type { ClassifierDeps } from '#api/classifier/deps.ts';
import { classifierRoutes } from '#api/classifier/mount.ts';
import type { ReadDeps } from '#api/exam-room/read-deps.ts';
import { examReadRoutes } from '#api/exam-room/read-routes.ts';
import { EXAM_ROOM, examRoomRoutes } from '#api/exam-room/routes.ts';
import { behindGateway, gatewayToken } from '#api/http/guards/tokens.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import { auditRoutes } from '#api/operations/audit.ts';
import { type ClusterDeps, clusterRoutes } from '#api/operations/cluster.ts';
import { type DeadLetterDeps, deadLetterRoutes } from '#api/operations/dead-letters.ts';
import { examRoutes } from '#api/operations/exams.ts';
import { type OperationsDeps, operationsRoutes } from '#api/operations/routes.ts';
import { type SubscriptionDeps, subscriptionRoutes } from '#api/operations/subscriptions.ts';
import { type TraceDeps, traceRoutes } from '#api/operations/trace.ts';
import type { Route } from '#api/route.ts';

/**
 * Returns every route of the API behind a gateway with a token, as `web` mounts them in production. None of them can run: a route table
 * reads only tokens and senders of its dependencies.
 */
export function allRoutes(): Route[] {
  const attempt = { settings: { receiverToken: 'token', handoffSenders: ['api-gateway'] } } as unknown as AttemptDeps;
  const notification = { senderTokens: { 'bff-service': 'token' } } as unknown as NotificationDeps;
  const auth = { settings: { selfRegisterRoles: new Set() } } as unknown as AuthDeps;
  const operations = { services: [], production: true, opsToken: 'token' } as unknown as OperationsDeps;
  const served = [
    ...attemptRoutes(attempt),
    ...examRoomRoutes(attempt),
    ...examReadRoutes({ ...attempt } as ReadDeps, EXAM_ROOM),
    ...authRoutes(auth),
    ...classifierRoutes({ jobs: {}, previews: {}, providers: {} } as ClassifierDeps),
    ...notificationRoutes(notification),
    ...traceRoutes({} as TraceDeps),
    ...clusterRoutes({} as ClusterDeps),
    ...examRoutes({} as TraceDeps),
    ...deadLetterRoutes({} as DeadLetterDeps),
    ...subscriptionRoutes({} as SubscriptionDeps),
    ...auditRoutes({} as Parameters<typeof auditRoutes>[0]),
  ];
  return [...operationsRoutes(operations), ...behindGateway(served, gatewayToken({ gatewayToken: 'token' }))];
}
