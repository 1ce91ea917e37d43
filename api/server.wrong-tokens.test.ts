import t, { type Test } from 'tap';
import { identity, role } from '#api/http/guards/identity.ts';
import { knownSender, trustedStart } from '#api/http/guards/senders.ts';
import { behindGateway, gatewayToken, operator, opsToken } from '#api/http/guards/tokens.ts';
import { openWrongTokens } from '#api/http/wrong-tokens.ts';
import type { Guard } from '#api/route.ts';
import { captureLog } from '#testing/captured-log.ts';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';

const known = {
  senders: ['exam-service'],
  tokens: { 'exam-service': ['exam-token'] },
  unauthorizedCode: 'NOTIFICATION_INTERNAL_UNAUTHORIZED',
  unconfiguredCode: 'UNAVAILABLE',
} as const;
const get = (path: string, ...guards: Guard[]) => echoRoute({ method: 'GET', path, guards });
const routes = behindGateway(
  [
    get('/v1/ops', operator({ opsToken: ['ops-token'], opsReadToken: ['ops-read-token'] })),
    get('/metrics', opsToken({ opsToken: ['ops-token'], production: true })),
    get('/v1/own', identity(), role('STUDENT')),
    get('/v1/events', knownSender(known)),
    get('/v1/start', trustedStart({ token: ['start-token'] })),
  ],
  gatewayToken({ gatewayToken: ['gateway-token'] }),
);
const [home, elsewhere] = ['X-Forwarded-For: 203.0.113.9', 'X-Forwarded-For: 198.51.100.7'];
const limited = { status: 429, headers: { 'retry-after': /^[1-9]\d*$/ }, json: { code: 'RATE_LIMITED' } };

/** Opens a door that limits wrong tokens. Returns a function that sends a request from an address, by default from home. */
async function openDoor(t: Test) {
  const counted: string[] = [];
  const wrongTokens = openWrongTokens({
    trustedProxies: ['127.0.0.1'],
    log: captureLog(),
    addressHash: () => undefined,
    counted: (kind, outcome) => counted.push(`${kind} ${outcome}`),
  });
  const { port } = await openTestDoor(t, { routes, wrongTokens });
  const send = (path: string, headers: string[], from = home) => ask(t, port, 'GET', path, [from, ...headers]);
  return { counted, send };
}

const bearer = (token: string) => `Authorization: Bearer ${token}`;
const STUDENT = ['X-User-Id: an', 'X-User-Role: STUDENT'];
const service = (token: string) => ['X-Internal-Service: exam-service', `X-Internal-Token: ${token}`];

type Guess = [kind: string, path: string, wrong: string[], right: string[], status: number];
const OF_OPERATORS: Guess[] = [
  ['operator', '/v1/ops', [bearer('a-guess')], [bearer('ops-token')], 401],
  ['operator', '/v1/ops', [bearer('a-guess'), 'X-User-Id: an', 'X-User-Role: ADMIN'], [bearer('ops-read-token')], 401],
  ['operator', '/metrics', [bearer('a-guess')], [bearer('ops-token')], 401],
];
const OF_CALLERS: Guess[] = [
  ['gateway', '/v1/own', [...STUDENT, 'X-Gateway-Token: a-guess'], [...STUDENT, 'X-Gateway-Token: gateway-token'], 401],
  ['service', '/v1/events', service('a-guess'), service('exam-token'), 401],
  [
    'service',
    '/v1/start',
    ['X-Internal-Service: api-gateway', 'X-Internal-Token: a-guess'],
    [
      'X-Internal-Service: api-gateway',
      'X-Internal-Token: start-token',
      'X-Exam-Runtime-Decision-Source: exam-service',
    ],
    403,
  ],
];
for (const [kind, path, wrong, right, status] of [...OF_OPERATORS, ...OF_CALLERS]) {
  const isLimited = OF_OPERATORS.some((guess) => guess[0] === kind);
  const further = isLimited ? 'further ones get 429' : 'further ones get the same reply';
  t.test(`after 100 wrong ${kind} tokens at ${path} ${further}, and the right one passes`, async (t) => {
    const { counted, send } = await openDoor(t);
    for (let n = 0; n < 100; n += 1) t.equal((await send(path, wrong)).status, status);
    for (let n = 0; n < 3; n += 1) t.match(await send(path, wrong), isLimited ? limited : { status });
    t.equal((await send(path, right)).status, 200);
    t.equal((await send(path, wrong, elsewhere)).status, status, 'another address');
    const outcome = (name: string) => counted.filter((one) => one === `${kind} ${name}`).length;
    t.strictSame([outcome('refused'), outcome('limited')], isLimited ? [101, 3] : [104, 0]);
    t.equal(counted.length, 104);
  });
}

t.test('a request that guesses no token is not counted', async (t) => {
  const { counted, send } = await openDoor(t);
  const gate = 'X-Gateway-Token: gateway-token';
  const student = [gate, bearer('access-token-of-the-student'), ...STUDENT];
  for (const [path, headers, status] of [
    ['/v1/ops', [], 401],
    ['/v1/ops', ['Authorization: Basic YTpi'], 401],
    ['/v1/ops', student, 403],
    ['/v1/own', student, 200],
    ['/v1/own', STUDENT, 401],
    ['/v1/own', [...STUDENT, 'X-Gateway-Token: '], 401],
    ['/v1/own', [gate], 401],
    ['/v1/events', ['X-Internal-Service: exam-service'], 401],
  ] as const) {
    t.equal((await send(path, [...headers])).status, status, `${path} ${headers.join()}`);
  }
  t.strictSame(counted, []);
});
