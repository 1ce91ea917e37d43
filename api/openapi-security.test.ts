import t from 'tap';
import { ACTOR, identity, optionalIdentity, organization, role, roleOrNone, scope } from '#api/http/guards/identity.ts';
import { adminOrSender, internalSender, knownSender, trustedStart } from '#api/http/guards/senders.ts';
import {
  accessToken,
  behindGateway,
  gatewayToken,
  operator,
  opsToken,
  tokenInHeader,
} from '#api/http/guards/tokens.ts';
import { echoRoute } from '#testing/doors/test-door.ts';
import { accessText, requirementsOf, securityOf, securitySchemesOf } from './openapi-security.ts';
import type { Guard } from './route.ts';

const SENDERS = {
  senders: ['exam-service', 'auth-service'],
  tokens: { 'exam-service': 'token', 'auth-service': 'token' },
  unauthorizedCode: 'NOTIFICATION_INTERNAL_UNAUTHORIZED',
  unconfiguredCode: 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED',
} as const;
const RECEIVER = internalSender({ ...SENDERS, token: 'token' });
const GATE = gatewayToken({ gatewayToken: 'gate' });

function routeOf(guards: Guard[], gate?: Guard) {
  const [route] = behindGateway([echoRoute({ guards })], gate);
  if (route === undefined) throw new Error('behindGateway returned no route');
  return route;
}

const security = (guards: Guard[], gate?: Guard) => securityOf(requirementsOf(routeOf(guards, gate)));

t.test('guards in a row need the proofs of all of them', async (t) => {
  t.strictSame(security([]), []);
  t.strictSame(security([identity(), role('STUDENT')]), [{ userId: [], userRole: ['STUDENT'] }]);
  t.strictSame(security([identity(ACTOR), scope(), role('ADMIN', 'TEACHER')]), [
    { actorId: [], actorRole: ['ADMIN', 'TEACHER'], organizationId: [] },
  ]);
  t.strictSame(security([trustedStart({ token: 'token' }), identity(), role('STUDENT')]), [
    {
      internalService: ['api-gateway'],
      receiverToken: [],
      runtimeDecisionSource: ['exam-service'],
      userId: [],
      userRole: ['STUDENT'],
    },
  ]);
  t.strictSame(security([accessToken(() => null)]), [{ accessToken: [] }]);
  t.strictSame(security([knownSender(SENDERS), organization()]), [
    { internalService: SENDERS.senders, senderToken: [] },
  ]);
});

t.test('a role that may be absent makes an alternative without it', async (t) => {
  const names = { ...ACTOR, roleMayBeAbsent: true };
  t.strictSame(security([identity(names), roleOrNone('PARENT')]), [
    { actorId: [], actorRole: ['PARENT'] },
    { actorId: [] },
  ]);
  t.strictSame(security([identity(names), role('ADMIN')]), [{ actorId: [], actorRole: ['ADMIN'] }]);
});

t.test('the gateway token is required beside an identity, and nowhere else', async (t) => {
  t.strictSame(security([identity(), role()], GATE), [
    { gatewayToken: [], userId: [], userRole: ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] },
  ]);
  t.strictSame(security([RECEIVER, optionalIdentity('TEACHER')], GATE), [
    { internalService: SENDERS.senders, receiverToken: [] },
    { gatewayToken: [], internalService: SENDERS.senders, receiverToken: [], userId: [], userRole: ['TEACHER'] },
  ]);
  t.strictSame(security([adminOrSender(ACTOR, SENDERS)], GATE), [
    { internalService: SENDERS.senders, senderToken: [] },
    { gatewayToken: [], actorId: [], actorRole: ['ADMIN'] },
  ]);
  const person = { gatewayToken: [], userId: [], userRole: ['ADMIN'] };
  t.strictSame(security([operator({})], GATE), [{ operatorToken: [] }, person]);
  t.strictSame(security([operator({ opsReadToken: 'read' })], GATE), [
    { operatorToken: [] },
    { monitoringToken: [] },
    person,
  ]);
  t.strictSame(security([RECEIVER], GATE), [{ internalService: SENDERS.senders, receiverToken: [] }]);
});

t.test('a proof that may be left out makes an empty alternative', async (t) => {
  t.strictSame(security([tokenInHeader()]), [{ refreshToken: [] }, {}]);
  t.strictSame(security([opsToken({ production: false })]), [{ monitoringToken: [] }, { operatorToken: [] }, {}]);
  t.strictSame(security([opsToken({ production: true })]), [{ monitoringToken: [] }, { operatorToken: [] }]);
});

t.test('access is stated in words', async (t) => {
  const text = (guards: Guard[]) => accessText(requirementsOf(routeOf(guards)));
  t.equal(text([]), 'Access: any caller.');
  t.equal(text([identity(), role('TEACHER', 'ADMIN')]), 'Access: `X-User-Id`, `X-User-Role` of `TEACHER` or `ADMIN`.');
  t.equal(text([tokenInHeader()]), 'Access, one of:\n\n- `Authorization: Bearer` (refreshToken)\n- no header');
});

t.test('the document describes the schemes that its operations use, and no other', async (t) => {
  const schemes = securitySchemesOf([routeOf([identity(), role()], GATE), routeOf([accessToken(() => null)])]);
  t.match(schemes, {
    accessToken: { type: 'http', scheme: 'bearer', description: String },
    gatewayToken: { type: 'apiKey', in: 'header', name: 'X-Gateway-Token', description: String },
    userId: { type: 'apiKey', in: 'header', name: 'X-User-Id', description: String },
    userRole: { type: 'apiKey', in: 'header', name: 'X-User-Role', description: String },
  });
  t.equal(Object.keys(schemes).length, 4);
});
