import t, { type Test } from 'tap';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { tracingCallers } from './tokens.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACED = `traceparent: 00-${TRACE}-00f067aa0ba902b7-01`;
const TOKENS = {
  gatewayToken: ['gateway-new', 'gateway-old'],
  internalServiceToken: ['internal-token'],
  attempt: { receiverToken: ['receiver-token'] },
  notification: { senderTokens: { 'exam-service': ['exam-token'], 'auth-service': undefined } },
};

/** Returns the trace in the access line of a request with these headers. */
async function traceOf(t: Test, tokens: Parameters<typeof tracingCallers>[0], headers: string[]) {
  const route = echoRoute({ method: 'GET', path: '/v1/open' });
  const { port, lines } = await openTestDoor(t, { routes: [route], mayTrace: tracingCallers(tokens) });
  const { headers: replied } = await ask(t, port, 'GET', '/v1/open', [TRACED, 'X-Request-Id: request-7', ...headers]);
  t.equal(replied['x-request-id'], 'request-7', 'the request id is taken from every caller');
  return lines().find(({ msg }) => msg === 'request')?.traceId;
}

t.test('the gateway and neighbours continue their traces', async (t) => {
  for (const header of [
    'X-Gateway-Token: gateway-new',
    'X-Gateway-Token: gateway-old',
    'X-Internal-Token: internal-token',
    'X-Internal-Token: receiver-token',
    'X-Internal-Token: exam-token',
  ]) {
    t.equal(await traceOf(t, TOKENS, [header]), TRACE, header);
  }
});

t.test('the traceparent of a stranger is ignored', async (t) => {
  for (const headers of [
    [],
    ['X-Gateway-Token: guessed'],
    ['X-Gateway-Token: internal-token'],
    ['X-Internal-Token: gateway-new'],
    ['X-Gateway-Token: guessed', 'X-Gateway-Token: gateway-new'],
    ['Authorization: Bearer gateway-new'],
  ]) {
    t.equal(await traceOf(t, TOKENS, headers), undefined, headers.join());
  }
  t.equal(await traceOf(t, { ...TOKENS, gatewayToken: [] }, ['X-Gateway-Token: ']), undefined, 'an empty token');
});

t.test('without a gateway token every caller is believed, as with identity headers', async (t) => {
  t.equal(await traceOf(t, { ...TOKENS, gatewayToken: undefined }, []), TRACE);
});
