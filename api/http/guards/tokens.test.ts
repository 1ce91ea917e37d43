import t, { type Test } from 'tap';
import { readHead } from '#api/http/exchange.ts';
import { requirementsOf, securityOf } from '#api/openapi-security.ts';
import type { Guard, Head, Identity } from '#api/route.ts';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { ACTOR, organization } from './identity.ts';
import { adminOrSender, type KnownSenders, knownSender } from './senders.ts';
import { behindGateway, gatewayToken, provenCallers } from './tokens.ts';

type Pairs = [string, string][];

function head(...pairs: Pairs): Head {
  const headers = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  return readHead({ headers, rawHeaders: pairs.flat() } as never, 'POST', '/', {});
}

function verdict(guards: readonly Guard[], ...pairs: Pairs): Identity | string {
  const known: Identity = {};
  for (const guard of guards) {
    const refused = guard.check(head(...pairs), known);
    if (refused !== undefined) return refused.rejected;
  }
  return known;
}

const KNOWN: KnownSenders = {
  senders: ['exam-service', 'admin-service', 'silent-service'],
  tokens: { 'exam-service': 'exam-token', 'admin-service': 'admin-token', 'bff-service': 'bff-token' },
  unauthorizedCode: 'NOTIFICATION_INTERNAL_UNAUTHORIZED',
  unconfiguredCode: 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED',
};
const service = (name: string): [string, string] => ['X-Internal-Service', name];
const token = (text: string): [string, string] => ['X-Internal-Token', text];
const actor = (role: string): Pairs => [
  ['X-Actor-Id', 'a'],
  ['X-Actor-Role', role],
];
const WRONG: Pairs[] = [
  [service('exam-service')],
  [token('exam-token')],
  [service('exam-service'), token('admin-token')],
  [service('exam-service'), token('exam-toke')],
  [service('exam-service'), token('')],
  [service('silent-service'), token('')],
  [service('silent-service'), token('undefined')],
  [service('exam-service'), token('exam-token'), token('exam-token')],
  [service('exam-service'), service('exam-service'), token('exam-token')],
];

/** Credentials of services that may not send here. */
const OTHERS: Pairs[] = [
  [service('api-gateway'), token('exam-token')],
  [service('bff-service'), token('bff-token')],
  [service('constructor'), token('wrong')],
  [service('api-gateway')],
];

t.test('knownSender accepts each service with its own token only', async (t) => {
  const guard = [knownSender(KNOWN)];
  t.strictSame(verdict(guard, service('exam-service'), token('exam-token')), { sender: 'exam-service' });
  t.strictSame(verdict(guard, service('admin-service'), token('admin-token')), { sender: 'admin-service' });
  for (const pairs of [[], ...WRONG, ...OTHERS]) {
    t.equal(verdict(guard, ...pairs), 'NOTIFICATION_INTERNAL_UNAUTHORIZED', JSON.stringify(pairs));
  }
});

t.test('sender guards refuse services with a code of its own while no token is configured', async (t) => {
  for (const tokens of [{}, { 'exam-service': undefined, 'admin-service': '' }, { 'bff-service': 'bff-token' }]) {
    for (const guard of [knownSender({ ...KNOWN, tokens }), adminOrSender(ACTOR, { ...KNOWN, tokens })]) {
      const answer = verdict([guard], service('exam-service'), token(''));
      t.equal(answer, 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED', guard.name);
    }
    t.match(verdict([adminOrSender(ACTOR, { ...KNOWN, tokens })], ...actor('ADMIN')), { actor: { id: 'a' } });
  }
});

t.test('adminOrSender checks internal credentials alone if sent, and otherwise requires an ADMIN', async (t) => {
  const guard = [adminOrSender(ACTOR, KNOWN)];
  t.strictSame(verdict(guard, service('exam-service'), token('exam-token')), { sender: 'exam-service' });
  t.match(verdict(guard, ...actor('ADMIN')), { actor: { id: 'a', role: 'ADMIN' } });
  for (const role of ['STUDENT', 'TEACHER', 'PARENT', 'admin', 'ROOT']) {
    t.equal(verdict(guard, ...actor(role)), 'FORBIDDEN', role);
  }
  for (const pairs of [[], [['X-Actor-Id', 'a']], [['X-Actor-Role', 'ADMIN']]] as Pairs[]) {
    t.equal(verdict(guard, ...pairs), 'UNAUTHENTICATED', JSON.stringify(pairs));
  }
  for (const pairs of WRONG) {
    const answer = verdict(guard, ...pairs, ...actor('ADMIN'));
    t.equal(answer, 'NOTIFICATION_INTERNAL_UNAUTHORIZED', `${JSON.stringify(pairs)} beside an ADMIN`);
  }
  for (const pairs of OTHERS) {
    t.equal(verdict(guard, ...pairs), 'NOTIFICATION_INTERNAL_UNAUTHORIZED', `${JSON.stringify(pairs)} alone`);
    t.match(
      verdict(guard, ...pairs, ...actor('ADMIN')),
      { actor: { id: 'a' }, sender: undefined },
      JSON.stringify(pairs),
    );
    t.equal(verdict(guard, ...pairs, ...actor('TEACHER')), 'FORBIDDEN');
  }
});

t.test('adminOrSender checks the organization as part of the identity, before the role', async (t) => {
  const guard = [adminOrSender(ACTOR, KNOWN)];
  const good: Pairs[number] = ['X-Organization-Id', 'org-1'];
  const bad: Pairs[number] = ['X-Organization-Id', 'two words'];
  const named = { organizationId: 'org-1' };
  t.match(verdict(guard, ...actor('ADMIN'), good), named);
  t.match(verdict(guard, service('exam-service'), token('exam-token'), good), named);
  for (const pairs of [actor('STUDENT'), actor('ADMIN'), [service('exam-service'), token('exam-token')]] as Pairs[]) {
    t.equal(verdict(guard, ...pairs, bad), 'UNAUTHENTICATED', JSON.stringify(pairs));
  }
  t.equal(
    verdict(guard, service('exam-service'), token('no'), bad),
    'NOTIFICATION_INTERNAL_UNAUTHORIZED',
    'after the token',
  );
});

t.test('the gateway’s token is required only where adminOrSender trusts identity headers', async (t) => {
  const gate = gatewayToken({ gatewayToken: 'gate' });
  const [route] = behindGateway([echoRoute({ guards: [adminOrSender(ACTOR, KNOWN)] })], gate);
  const guards = route?.guards ?? [];
  t.strictSame(
    guards.map(({ name }) => name),
    ['gatewayToken', 'adminOrSender'],
  );
  t.strictSame(verdict(guards, service('exam-service'), token('exam-token')), { sender: 'exam-service' });
  t.equal(verdict(guards, service('exam-service'), token('no')), 'NOTIFICATION_INTERNAL_UNAUTHORIZED');
  t.equal(verdict(guards), 'UNAUTHENTICATED');
  t.equal(verdict(guards, ...actor('ADMIN')), 'UNAUTHENTICATED');
  t.equal(verdict(guards, ...actor('STUDENT')), 'UNAUTHENTICATED', 'the gateway token is checked before the role');
  t.match(verdict(guards, ...actor('ADMIN'), ['X-Gateway-Token', 'gate']), { actor: { id: 'a' } });
  const gateway: Pairs = [service('api-gateway'), token('any')];
  t.equal(
    verdict(guards, ...gateway, ...actor('ADMIN')),
    'UNAUTHENTICATED',
    'no credentials of another service replace it',
  );
  t.strictSame(
    securityOf(requirementsOf({ guards })),
    [
      { internalService: KNOWN.senders, senderToken: [] },
      { gatewayToken: [], actorId: [], actorRole: ['ADMIN'] },
    ],
    'OpenAPI must not demand it of services',
  );
  const [bare] = behindGateway([echoRoute({ guards: [knownSender(KNOWN), organization()] })], gate);
  t.strictSame(
    bare?.guards.map(({ name }) => name),
    ['knownSender', 'organization'],
  );
});

t.test('organization is optional; a malformed or repeated one is an identity fault', async (t) => {
  const guard = [organization()];
  t.strictSame(verdict(guard), {});
  t.strictSame(verdict(guard, ['X-Organization-Id', 'org-1']), { organizationId: 'org-1' });
  for (const bad of ['', 'two words', 'ấ', 'o'.repeat(129), 'a,b']) {
    t.equal(verdict(guard, ['X-Organization-Id', bad]), 'UNAUTHENTICATED', bad);
  }
  t.equal(verdict(guard, ['X-Organization-Id', 'o'], ['X-Organization-Id', 'o']), 'UNAUTHENTICATED');
});

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACED = `traceparent: 00-${TRACE}-00f067aa0ba902b7-01`;
const TOKENS = {
  gatewayToken: ['gateway-new', 'gateway-old'],
  internalServiceToken: ['internal-token'],
  attempt: { receiverToken: ['receiver-token'] },
  notification: { senderTokens: { 'exam-service': ['exam-token'], 'auth-service': undefined } },
};

/** Returns what the access line of a request with these headers names as its trace and its ids. */
async function trailOf(t: Test, tokens: Parameters<typeof provenCallers>[0], headers: string[]) {
  const route = echoRoute({ method: 'GET', path: '/v1/open' });
  const { port, lines } = await openTestDoor(t, { routes: [route], isProven: provenCallers(tokens) });
  const reply = await ask(t, port, 'GET', '/v1/open', [TRACED, 'X-Request-Id: request-7', ...headers]);
  t.equal(reply.headers['x-request-id'], 'request-7', 'the reply has the id of the request, whoever sent it');
  const { traceId, requestId, clientRequestId } = lines().find(({ msg }) => msg === 'request') ?? {};
  return { traceId, requestId, clientRequestId };
}

const BELIEVED = { traceId: TRACE, requestId: 'request-7', clientRequestId: undefined };
/** A UUID: an id of our own. */
const OWN = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

t.test('the gateway and neighbours continue their traces and choose the ids of their requests', async (t) => {
  for (const header of [
    'X-Gateway-Token: gateway-new',
    'X-Gateway-Token: gateway-old',
    'X-Internal-Token: internal-token',
    'X-Internal-Token: receiver-token',
    'X-Internal-Token: exam-token',
  ]) {
    t.strictSame(await trailOf(t, TOKENS, [header]), BELIEVED, header);
  }
});

t.test('a stranger’s traceparent is ignored, and its id is only noted', async (t) => {
  for (const headers of [
    [],
    ['X-Gateway-Token: guessed'],
    ['X-Gateway-Token: internal-token'],
    ['X-Internal-Token: gateway-new'],
    ['X-Gateway-Token: guessed', 'X-Gateway-Token: gateway-new'],
    ['Authorization: Bearer gateway-new'],
  ]) {
    const trail = await trailOf(t, TOKENS, headers);
    t.match(trail, { traceId: undefined, requestId: OWN, clientRequestId: 'request-7' }, headers.join());
  }
  const trail = await trailOf(t, { ...TOKENS, gatewayToken: [] }, ['X-Gateway-Token: ']);
  t.match(trail, { traceId: undefined, requestId: OWN }, 'an empty token');
});

t.test('without a gateway token every caller is believed, as with identity headers', async (t) => {
  t.strictSame(await trailOf(t, { ...TOKENS, gatewayToken: undefined }, []), BELIEVED);
});

t.test('the gateway passes on the id that its client chose, as a second one', async (t) => {
  const headers = ['X-Gateway-Token: gateway-new', 'X-Client-Request-Id: of-the-browser'];
  t.strictSame(await trailOf(t, TOKENS, headers), { ...BELIEVED, clientRequestId: 'of-the-browser' });
  const [, chosen = ''] = headers;
  t.match(await trailOf(t, TOKENS, [chosen]), { requestId: OWN, clientRequestId: 'request-7' }, 'a stranger does not');
});

t.test('all lines of a stranger’s request have an id of our own, which the failure does not name', async (t) => {
  const route = echoRoute({
    method: 'GET',
    path: '/v1/open',
    handle: async () => {
      throw new Error('a bug');
    },
  });
  const { port, lines } = await openTestDoor(t, { routes: [route], isProven: provenCallers(TOKENS) });
  const reply = await ask(t, port, 'GET', '/v1/open', ['X-Request-Id: request-7']);
  t.match(reply, { status: 500, headers: { 'x-request-id': 'request-7' }, json: { requestId: 'request-7' } });
  const [failed, answered] = lines();
  t.match(failed, { msg: 'request failed', requestId: OWN, clientRequestId: 'request-7' });
  t.equal(answered?.requestId, failed?.requestId);
});
