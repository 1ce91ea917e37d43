import t from 'tap';
import { readHead } from '#api/http/exchange.ts';
import { requirementsOf, securityOf } from '#api/openapi-security.ts';
import type { Guard, Head, Identity } from '#api/route.ts';
import { echoRoute } from '#testing/doors/test-door.ts';
import { ACTOR, organization } from './identity.ts';
import { adminOrSender, type KnownSenders, knownSender } from './senders.ts';
import { behindGateway, gatewayToken } from './tokens.ts';

type Pairs = [string, string][];

function head(...pairs: Pairs): Head {
  const headers = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  return readHead({ headers, rawHeaders: pairs.flat() } as never, 'POST', '/', {});
}

function ask(guards: readonly Guard[], ...pairs: Pairs): Identity | string {
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
  t.strictSame(ask(guard, service('exam-service'), token('exam-token')), { sender: 'exam-service' });
  t.strictSame(ask(guard, service('admin-service'), token('admin-token')), { sender: 'admin-service' });
  for (const pairs of [[], ...WRONG, ...OTHERS]) {
    t.equal(ask(guard, ...pairs), 'NOTIFICATION_INTERNAL_UNAUTHORIZED', JSON.stringify(pairs));
  }
});

t.test('sender guards refuse services with a code of its own while no token is configured', async (t) => {
  for (const tokens of [{}, { 'exam-service': undefined, 'admin-service': '' }, { 'bff-service': 'bff-token' }]) {
    for (const guard of [knownSender({ ...KNOWN, tokens }), adminOrSender(ACTOR, { ...KNOWN, tokens })]) {
      const answer = ask([guard], service('exam-service'), token(''));
      t.equal(answer, 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED', guard.name);
    }
    t.match(ask([adminOrSender(ACTOR, { ...KNOWN, tokens })], ...actor('ADMIN')), { actor: { id: 'a' } });
  }
});

t.test('adminOrSender checks internal credentials alone if sent, and otherwise requires an ADMIN', async (t) => {
  const guard = [adminOrSender(ACTOR, KNOWN)];
  t.strictSame(ask(guard, service('exam-service'), token('exam-token')), { sender: 'exam-service' });
  t.match(ask(guard, ...actor('ADMIN')), { actor: { id: 'a', role: 'ADMIN' } });
  for (const role of ['STUDENT', 'TEACHER', 'PARENT', 'admin', 'ROOT']) {
    t.equal(ask(guard, ...actor(role)), 'FORBIDDEN', role);
  }
  for (const pairs of [[], [['X-Actor-Id', 'a']], [['X-Actor-Role', 'ADMIN']]] as Pairs[]) {
    t.equal(ask(guard, ...pairs), 'UNAUTHENTICATED', JSON.stringify(pairs));
  }
  for (const pairs of WRONG) {
    const answer = ask(guard, ...pairs, ...actor('ADMIN'));
    t.equal(answer, 'NOTIFICATION_INTERNAL_UNAUTHORIZED', `${JSON.stringify(pairs)} beside an ADMIN`);
  }
  for (const pairs of OTHERS) {
    t.equal(ask(guard, ...pairs), 'NOTIFICATION_INTERNAL_UNAUTHORIZED', `${JSON.stringify(pairs)} alone`);
    t.match(ask(guard, ...pairs, ...actor('ADMIN')), { actor: { id: 'a' }, sender: undefined }, JSON.stringify(pairs));
    t.equal(ask(guard, ...pairs, ...actor('TEACHER')), 'FORBIDDEN');
  }
});

t.test('adminOrSender checks the organization as part of the identity, before the role', async (t) => {
  const guard = [adminOrSender(ACTOR, KNOWN)];
  const good: Pairs[number] = ['X-Organization-Id', 'org-1'];
  const bad: Pairs[number] = ['X-Organization-Id', 'two words'];
  const named = { organizationId: 'org-1' };
  t.match(ask(guard, ...actor('ADMIN'), good), named);
  t.match(ask(guard, service('exam-service'), token('exam-token'), good), named);
  for (const pairs of [actor('STUDENT'), actor('ADMIN'), [service('exam-service'), token('exam-token')]] as Pairs[]) {
    t.equal(ask(guard, ...pairs, bad), 'UNAUTHENTICATED', JSON.stringify(pairs));
  }
  t.equal(
    ask(guard, service('exam-service'), token('no'), bad),
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
  t.strictSame(ask(guards, service('exam-service'), token('exam-token')), { sender: 'exam-service' });
  t.equal(ask(guards, service('exam-service'), token('no')), 'NOTIFICATION_INTERNAL_UNAUTHORIZED');
  t.equal(ask(guards), 'UNAUTHENTICATED');
  t.equal(ask(guards, ...actor('ADMIN')), 'UNAUTHENTICATED');
  t.equal(ask(guards, ...actor('STUDENT')), 'UNAUTHENTICATED', 'the gateway token is checked before the role');
  t.match(ask(guards, ...actor('ADMIN'), ['X-Gateway-Token', 'gate']), { actor: { id: 'a' } });
  const gateway: Pairs = [service('api-gateway'), token('any')];
  t.equal(
    ask(guards, ...gateway, ...actor('ADMIN')),
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
  t.strictSame(ask(guard), {});
  t.strictSame(ask(guard, ['X-Organization-Id', 'org-1']), { organizationId: 'org-1' });
  for (const bad of ['', 'two words', 'ấ', 'o'.repeat(129), 'a,b']) {
    t.equal(ask(guard, ['X-Organization-Id', bad]), 'UNAUTHENTICATED', bad);
  }
  t.equal(ask(guard, ['X-Organization-Id', 'o'], ['X-Organization-Id', 'o']), 'UNAUTHENTICATED');
});
