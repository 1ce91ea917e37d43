import t from 'tap';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { authRoutes } from '#api/auth/routes.ts';
import type { ClassifierDeps } from '#api/classifier/deps.ts';
import { classifierRoutes } from '#api/classifier/mount.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import { SMALL_BODY } from '#api/route.ts';
import { callersOf, sharesOf } from './body-budget.ts';

// Building the route table reads only tokens and senders of its dependencies.
const routes = [
  ...attemptRoutes({ settings: { receiverToken: ['t'], handoffSenders: ['api-gateway'] } } as unknown as AttemptDeps),
  ...authRoutes({ settings: { selfRegisterRoles: new Set() } } as unknown as AuthDeps),
  ...classifierRoutes({ jobs: {}, previews: {}, providers: {} } as ClassifierDeps),
  ...notificationRoutes({ senderTokens: { 'bff-service': ['t'] } } as unknown as NotificationDeps),
];

t.test('the guards of a route decide whose body it reads', async (t) => {
  const withBody = routes.filter(({ body }) => body !== undefined);
  const pathsOf = (callers: string) =>
    withBody.filter(({ guards }) => callersOf(guards) === callers).map(({ path }) => path);
  t.same(pathsOf('anonymous'), ['/v1/auth/register', '/v1/auth/login', '/v1/auth/refresh', '/v1/auth/logout']);
  t.same(pathsOf('accounts'), ['/v1/auth/sessions/revoke-others', '/v1/auth/password']);
  t.equal(pathsOf('identified').length, withBody.length - 6);
});

t.test('the share of one address has room for a school and for a body of the largest size', async (t) => {
  const MIB = 1 << 20;
  const { anonymous, accounts } = sharesOf({ bodyBudgetBytes: 256 * MIB, maxConnections: 32_768 });
  t.same(anonymous, { bodyBytes: 32 * MIB, requests: 16_384 });
  t.same(accounts, { bodyBytes: 32 * MIB, requests: 4_096 });
  const least = sharesOf({ bodyBudgetBytes: 8 * MIB, maxConnections: 1_024 });
  t.equal(least.anonymous.bodyBytes, 8 * SMALL_BODY);
});
