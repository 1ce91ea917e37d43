import t from 'tap';
import { readHead } from '#api/http/exchange.ts';
import { requirementsOf, securityOf } from '#api/openapi-security.ts';
import type { Identity, Route } from '#api/route.ts';
import type { NotificationDeps } from './deps.ts';
import { notificationRoutes } from './mount.ts';

type Pairs = [string, string][];

// Building the table of routes reads only the tokens of its dependencies.
const senderTokens = { 'exam-service': 'token', 'bff-service': 'token' };
const routes = notificationRoutes({ senderTokens } as unknown as NotificationDeps);
const ID: Pairs = [['x-actor-id', 'an']];

/** Runs the guards of a route on these headers; returns the code of a refusal, or the admitted identity. */
function asked(route: Route, headers: Pairs): string | Identity {
  const raw = { headers: Object.fromEntries(headers), rawHeaders: headers.flat() } as never;
  const known: Identity = {};
  for (const guard of route.guards) {
    const refused = guard.check(readHead(raw, route.method, route.path, {}), known);
    if (refused !== undefined) return refused.rejected;
  }
  return known;
}

/** Routes by the roles that they admit; OF_SENDERS admit services only. */
const OF_USERS = [
  'GET /v1/notifications',
  'GET /v1/notifications/stream',
  'POST /v1/notifications/read-all',
  'POST /v1/notifications/delete-all',
  'GET /v1/notifications/preferences',
  'PATCH /v1/notifications/preferences',
  'GET /v1/push-key',
  'GET /v1/push-subscriptions',
  'POST /v1/push-subscriptions',
  'DELETE /v1/push-subscriptions/:subscriptionId',
  'GET /v1/notifications/:notificationId',
  'POST /v1/notifications/:notificationId/read',
  'POST /v1/notifications/:notificationId/delete',
  'GET /v1/delivery-attempts',
];
const OF_PARENTS = [
  'GET /v1/parent/alerts',
  'POST /v1/parent/alerts/read-all',
  'POST /v1/parent/alerts/:notificationId/read',
];
const OF_ADMINS = [
  'GET /v1/admin/support/notification-summary',
  'POST /v1/notifications',
  'POST /v1/notifications/batch',
  'PUT /v1/notifications/:notificationId/snapshot',
  'POST /v1/delivery-attempts',
];
const OF_TEACHERS = ['POST /v1/alerts/weak-topic'];
const OF_SENDERS = ['POST /v1/events/weak-topic-alert', 'POST /v1/events/notification'];

/** Routes for the holder of a link in an e-mail, whose token the handler verifies. */
const OF_LINKS = ['GET /v1/notifications/unsubscribe', 'POST /v1/notifications/unsubscribe'];

function routesOf(names: readonly string[]): Route[] {
  return names.map((name) => {
    const found = routes.find(({ method, path }) => `${method} ${path}` === name);
    if (found === undefined) throw new Error(`there is no route ${name}`);
    return found;
  });
}

t.test('every route is in one of the lists of this file', async (t) => {
  const listed = [OF_USERS, OF_PARENTS, OF_ADMINS, OF_TEACHERS, OF_SENDERS, OF_LINKS].flat();
  t.strictSame(listed.sort(), routes.map(({ method, path }) => `${method} ${path}`).sort());
});

t.test('a caller without a role is admitted as a plain user', async (t) => {
  for (const route of routesOf([...OF_USERS, ...OF_PARENTS])) {
    t.match(asked(route, ID), { actor: { id: 'an', role: '' } }, route.operation);
    t.match(asked(route, [...ID, ['x-organization-id', 'org-1']]), { organizationId: 'org-1' }, route.operation);
  }
  for (const route of routesOf([...OF_ADMINS, ...OF_TEACHERS])) {
    t.equal(asked(route, ID), 'FORBIDDEN', route.operation);
  }
  for (const route of routesOf(OF_SENDERS)) {
    t.equal(asked(route, ID), 'NOTIFICATION_INTERNAL_UNAUTHORIZED', route.operation);
  }
});

t.test('the document admits a user by the id alone, and requires a role where the route does', async (t) => {
  const security = (route: Route) => securityOf(requirementsOf(route));
  for (const route of routesOf(OF_PARENTS)) {
    t.strictSame(security(route), [{ actorId: [], actorRole: ['PARENT', 'ADMIN'] }, { actorId: [] }], route.operation);
  }
  for (const route of routesOf(OF_USERS))
    t.match(security(route)[1], { actorId: [], actorRole: undefined }, route.operation);
  for (const route of routesOf(OF_TEACHERS)) {
    t.strictSame(security(route), [{ actorId: [], actorRole: ['ADMIN', 'TEACHER'] }], route.operation);
  }
});

t.test('a role is matched exactly', async (t) => {
  const passing = [
    { names: OF_USERS, roles: ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN', 'student', 'Admin', 'ROOT', 'NONE'] },
    { names: OF_PARENTS, roles: ['PARENT', 'ADMIN'] },
    { names: OF_ADMINS, roles: ['ADMIN'] },
    { names: OF_TEACHERS, roles: ['TEACHER', 'ADMIN'] },
  ];
  for (const { names, roles } of passing) {
    for (const route of routesOf(names)) {
      for (const role of ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN', 'student', 'Admin', 'ROOT', 'NONE']) {
        const answer = asked(route, [...ID, ['x-actor-role', role]]);
        if (roles.includes(role)) t.match(answer, { actor: { id: 'an', role } }, `${route.operation} ${role}`);
        else t.equal(answer, 'FORBIDDEN', `${route.operation} ${role}`);
      }
    }
  }
});

t.test('a malformed identity is refused before the role', async (t) => {
  const malformed: Pairs[] = [
    [],
    [['x-actor-role', 'ADMIN']],
    [...ID, ['x-actor-role', '']],
    [...ID, ['x-actor-role', 'two words']],
    [...ID, ['x-actor-role', 'ADMIN'], ['x-actor-role', 'ADMIN']],
    [...ID, ...ID],
    [...ID, ['x-organization-id', 'two words']],
  ];
  for (const route of routesOf([...OF_USERS, ...OF_PARENTS, ...OF_ADMINS, ...OF_TEACHERS])) {
    for (const headers of malformed) {
      t.equal(asked(route, headers), 'UNAUTHENTICATED', `${route.operation} ${JSON.stringify(headers)}`);
    }
  }
});
