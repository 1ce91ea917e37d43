import t, { type Test } from 'tap';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { provenCallers } from './tokens.ts';

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
