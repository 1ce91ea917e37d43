import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { Guard } from '#api/route.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { processorTimes } from '#testing/processor-time.ts';
import { openCallerAddress, openCountedNetwork, openCountedPeer } from './caller-address.ts';
import { identity, role } from './guards/identity.ts';
import { knownSender, trustedStart } from './guards/senders.ts';
import { behindGateway, gatewayToken, operator, opsToken } from './guards/tokens.ts';
import { isMinimalPreferred } from './headers.ts';
import { openWrongTokens } from './wrong-tokens.ts';

t.test('the caller’s address is the peer, or the last hop that is no trusted proxy', async (t) => {
  const addressOf = openCallerAddress(['10.0.0.0/8', '192.168.1.7', 'fd00::/8']);
  for (const [peer, forwarded, wanted] of [
    ['203.0.113.9', undefined, '203.0.113.9'],
    ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['::ffff:10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['10.1.2.3', 'spoofed, 198.51.100.1', '198.51.100.1'],
    ['10.1.2.3', '198.51.100.1, not an address', '10.1.2.3'],
    ['10.1.2.3', undefined, '10.1.2.3'],
    ['192.168.1.7', '2001:db8::1', '2001:db8::1'],
    ['192.168.1.8', '2001:db8::1', '192.168.1.8'],
    ['fd00::1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['fd00::1%eth0', '::ffff:c633:6401', '198.51.100.1'],
    ['fe80::1%eth0', '198.51.100.1', 'fe80::1'],
    ['', '198.51.100.1', ''],
    ['10.1.2.3', 'spoofed, 198.51.100.1, 10.9.9.9, 192.168.1.7', '198.51.100.1'],
    ['10.1.2.3', '203.0.113.1, 2001:db8::1, fd00::2,10.0.0.1', '2001:db8::1'],
    ['10.1.2.3', '10.0.0.3, fd00::2, 10.0.0.1', '10.0.0.3'],
    ['10.1.2.3', '198.51.100.1, unknown, 10.0.0.1', '10.0.0.1'],
    ['10.1.2.3', '198.51.100.1, , 10.0.0.1', '10.0.0.1'],
    ['10.1.2.3', '198.51.100.1,', '10.1.2.3'],
    ['10.1.2.3', 'spoofed, 198.51.100.1:50312', '198.51.100.1'],
    ['10.1.2.3', '198.51.100.1:50312, 10.0.0.1:443', '198.51.100.1'],
    ['10.1.2.3', '[2001:db8::1]:443', '2001:db8::1'],
    ['10.1.2.3', '[2001:db8::1]', '2001:db8::1'],
    ['10.1.2.3', '198.51.100.1:', '10.1.2.3'],
    ['10.1.2.3', '2001:db8::1:443', '2001:db8::1:443'],
    ['10.1.2.3', '', '10.1.2.3'],
  ] as const) {
    t.equal(addressOf(peer, forwarded), wanted, `${peer} ${forwarded}`);
  }
  t.equal(
    openCallerAddress([])('10.1.2.3', '198.51.100.1'),
    '10.1.2.3',
    'without configuration no peer is a trusted proxy',
  );
});

t.test('whatever a caller writes before the hops of the proxies, its address is the same', async () => {
  const addressOf = openCallerAddress(['10.0.0.0/8', 'fd00::/8']);
  const proxy = fc.oneof(
    fc.nat(255).map((last) => `10.0.0.${last}`),
    fc.nat(0xffff).map((last) => `fd00::${last.toString(16)}`),
  );
  const forged = fc.oneof(fc.string(), fc.ipV4(), fc.ipV6(), proxy);
  fc.assert(
    fc.property(fc.array(forged), fc.array(proxy), proxy, (before, proxies, peer) => {
      return addressOf(peer, [...before, '198.51.100.1', ...proxies].join(', ')) === '198.51.100.1';
    }),
  );
});

t.test('a connection counts for the network of its peer, unless the peer is a trusted proxy', async (t) => {
  const peerOf = openCountedPeer(['10.0.0.0/8']);
  t.equal(peerOf('203.0.113.9'), '203.0.113.9');
  t.equal(peerOf('::ffff:203.0.113.9'), '203.0.113.9');
  t.equal(peerOf('2001:db8:a:1::1'), peerOf('2001:db8:a:ffff::1'), 'a /48 is one network');
  t.not(peerOf('2001:db8:a::1'), peerOf('2001:db8:b::1'));
  t.not(peerOf('203.0.113.9'), peerOf('203.0.113.10'), 'an IPv4 address is a network of its own');
  t.equal(peerOf('10.1.2.3'), null);
  t.equal(peerOf('::ffff:10.1.2.3'), null);
  t.equal(peerOf(''), null, 'the peer has left');
  t.equal(openCountedPeer([])('203.0.113.9'), null, 'without configuration any peer may be the gateway');
});

t.test('the 65,536 networks of a customer are one caller among strangers', async (t) => {
  const networkOf = openCountedNetwork(['10.0.0.0/8']);
  const names = new Set<string>();
  for (let subnet = 0; subnet < 65_536; subnet += 1) {
    const forwarded = `2001:db8:a:${subnet.toString(16)}::1`;
    names.add(networkOf({ peer: '10.0.0.1', headers: { 'x-forwarded-for': forwarded } }));
  }
  t.strictSame([...names], ['2001:db8:a::/48']);
});

t.test('a caller gets a minimal reply if its first `return` preference is `minimal`', async (t) => {
  for (const [header, wanted] of [
    [undefined, false],
    ['', false],
    ['return=minimal', true],
    ['Return = Minimal', true],
    ['return="minimal"', true],
    ['respond-async, return=minimal; foo=1', true],
    ['return=representation, return=minimal', false],
    ['return=minimal, return=representation', true],
    ['return', false],
    ['returns=minimal', false],
    ['=minimal', false],
    ['handling=lenient', false],
    ['"return=minimal"', false],
  ] as const) {
    t.equal(isMinimalPreferred(header), wanted, String(header));
  }
});

// Before: one header of 16 KB held the front door for 0.7 s.
t.test('a header of spaces costs no more than one of letters', async (t) => {
  const [attack = 0, measure = 0] = await processorTimes([
    () => isMinimalPreferred(`return=${' '.repeat(16_000)}""`),
    () => isMinimalPreferred(`return=${'x'.repeat(16_002)}`),
  ]);
  t.ok(attack < 5 * measure + 50, `${attack} ms; letters ${measure} ms`);
});

/** Opens a count with a clock of the test, and notes its lines and what it counts. */
function rig() {
  const clock = { now: 0 };
  const lines: Record<string, unknown>[] = [];
  const counted: string[] = [];
  const wrongTokens = openWrongTokens({
    trustedProxies: ['10.0.0.1'],
    log: { warn: (fields, message) => lines.push({ ...fields, message }) },
    addressHash: (address) => `hash of ${address}`,
    counted: (kind, outcome) => counted.push(`${kind} ${outcome}`),
    clock: () => clock.now,
  });
  const send = (kind: 'operator' | 'gateway' | 'console', address = '203.0.113.7') =>
    wrongTokens.count({ peer: '10.0.0.1', headers: { 'x-forwarded-for': address } }, kind);
  return { clock, lines, counted, send };
}

t.test('a network may send 100 wrong tokens of operators within five minutes, and ten to the console', async (t) => {
  const { clock, counted, send } = rig();
  for (let n = 0; n < 100; n += 1) t.equal(send('operator'), null);
  clock.now += MINUTE;
  t.equal(send('operator'), 240, 'the rest of the five minutes');
  for (let n = 0; n < 101; n += 1) t.equal(send('gateway'), null, 'a gateway with an outdated token');
  t.equal(send('operator', '203.0.113.8'), null, 'another address');
  t.strictSame([counted[99], counted[100], counted[201]], ['operator refused', 'operator limited', 'gateway refused']);
  for (let n = 0; n < 10; n += 1) t.equal(send('console'), null);
  t.equal(send('console'), 240);
  clock.now += 4 * MINUTE;
  t.equal(send('operator'), null);
});

t.test('all networks of one customer are counted together', async (t) => {
  const { send } = rig();
  for (let n = 0; n < 10; n += 1) t.equal(send('console', `2001:db8:a:${n}::1`), null);
  t.equal(send('console', '2001:db8:a:ffff::1'), 300);
  t.equal(send('console', '2001:db8:b::1'), null);
});

t.test('a network is logged once a minute, by a hash and with the number of its wrong tokens', async (t) => {
  const { clock, lines, send } = rig();
  for (let n = 0; n < 50; n += 1) send('operator');
  send('operator', '2001:db8:a:1::7');
  const message = 'wrong token refused';
  const first = { address: 'hash of 203.0.113.7', kind: 'operator', wrong: 1, message };
  t.strictSame(lines, [first, { ...first, address: 'hash of 2001:db8:a:1::/64' }]);
  clock.now += MINUTE;
  send('gateway');
  send('gateway');
  t.strictSame(lines.slice(2), [{ ...first, kind: 'gateway', wrong: 50 }]);
});

t.test('a flood from many networks holds a bounded number of them', async (t) => {
  const { send } = rig();
  for (let n = 0; n < 10; n += 1) send('console');
  for (let n = 0; n < 10_000; n += 1) send('console', `2001:db8:${n.toString(16)}::1`);
  t.equal(send('console'), null, 'the oldest network is forgotten');
});

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
