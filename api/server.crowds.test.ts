import t, { type Test } from 'tap';
import { identity } from '#api/http/guards/identity.ts';
import { internalSender } from '#api/http/guards/senders.ts';
import { accessToken } from '#api/http/guards/tokens.ts';
import {
  ask,
  echoRoute,
  JSON_TYPE,
  openTestDoor,
  openWire,
  requestText,
  type TestDoor,
  type Wire,
} from '#testing/doors/test-door.ts';
import { until } from '#testing/until.ts';

// A school's address may hold 2 requests and 100 bytes in these tests.
const anonymous = { requests: 16, bodyBytes: 800 };
const routes = [
  echoRoute({ path: '/v1/open' }),
  echoRoute({ path: '/v1/account', guards: [accessToken(() => ({ sub: 'a', sid: 's' }))] }),
  echoRoute({ path: '/v1/inside', guards: [identity()] }),
];
const INSIDE = ['X-User-Id: student-1', 'X-User-Role: STUDENT'];
const busy = { status: 503, headers: { 'retry-after': '1' }, json: { code: 'UNAVAILABLE' } };
const [school, home] = ['198.51.100.7', '203.0.113.9'];

async function openDoor(t: Test) {
  const { port, observed } = await openTestDoor(t, { routes, limits: { anonymous }, trustedProxies: ['127.0.0.1'] });
  const from = (address: string) => [`X-Forwarded-For: ${address}`, JSON_TYPE];
  return {
    observed,
    /** Sends the head and `sent`, the begin of a body of 1,000 bytes, and leaves the rest out. */
    async begin(address: string, sent = '{'): Promise<Wire> {
      const wire = openWire(t, port);
      const expecting = [...from(address), 'Expect: 100-continue', 'Content-Length: 1000'];
      wire.write(requestText('POST', '/v1/open', expecting));
      t.match(await wire.reply(), { status: 100 }, 'the request is counted');
      wire.write(sent);
      return wire;
    },
    open: (address: string, body = '{}') => ask(t, port, 'POST', '/v1/open', from(address), body),
    inside: (body: string) => ask(t, port, 'POST', '/v1/inside', [...INSIDE, ...from(school)], body),
    account: () => ask(t, port, 'POST', '/v1/account', ['Authorization: Bearer x', ...from(school)], '{}'),
  };
}

/** Waits until the door has noted the end of so many requests. */
const ended = ({ observed }: Pick<TestDoor, 'observed'>, count: number) =>
  until(`${count} requests have ended`, () => observed.length === count);

t.test('one address holds at most an eighth of the anonymous requests', async (t) => {
  const door = await openDoor(t);
  const first = await door.begin(school);
  await door.begin(school);
  t.match(await door.open(school), busy, 'the third request of the school');
  t.match(await door.open(home), { status: 200 }, 'another address');
  t.match(await door.open(`${school}, ${home}`), { status: 200 }, 'what the caller wrote itself does not count');
  t.match(await door.inside('{}'), { status: 200 }, 'a person inside behind the same address');
  t.match(await door.account(), { status: 200 }, 'a caller with an access token behind the same address');
  first.socket.destroy();
  await ended(door, 6);
  t.match(await door.open(school), { status: 200 }, 'the share is released');
});

t.test('65,536 networks of one customer hold no more than one address', async (t) => {
  const door = await openDoor(t);
  const subnet = (n: number) => `2001:db8:a:${n.toString(16)}::1`;
  await door.begin(subnet(1));
  await door.begin(subnet(0x2000));
  for (let n = 3; n < 16; n += 1) t.match(await door.open(subnet(n << 12)), busy);
  t.match(await door.open('2001:db8:b::1'), { status: 200 }, 'another customer');
  t.match(await door.open(home), { status: 200 });
});

t.test('one address holds at most an eighth of the body bytes of anonymous requests', async (t) => {
  const door = await openDoor(t);
  const first = await door.begin(school, 'x'.repeat(90));
  await until('the bytes have arrived', async () => (await door.open(school, ' '.repeat(20))).status === 503);
  t.match(await door.open(school, '{}'), { status: 200 }, 'a body that fits');
  t.match(await door.open(home, `{}${' '.repeat(98)}`), { status: 200 }, 'another address has an eighth of its own');
  t.match(await door.open(home, `{}${' '.repeat(99)}`), busy, 'one byte more');
  t.match(await door.inside(`{}${' '.repeat(900)}`), { status: 200 }, 'a person inside');
  const before = door.observed.length;
  first.socket.destroy();
  await ended(door, before + 1);
  t.match(await door.open(school, `{}${' '.repeat(98)}`), { status: 200 }, 'the share is released');
});

t.test('all addresses together cannot use up what belongs to people inside', async (t) => {
  const door = await openDoor(t);
  for (let n = 0; n < 16; n += 1) await door.begin(`198.51.100.${n >> 1}`);
  t.match(await door.open(home), busy);
  t.match(await door.inside(`{}${' '.repeat(900)}`), { status: 200 });
  t.match(await door.account(), { status: 200 });
});

t.test('of more slow bodies than may arrive at any rate the oldest gets 408 before the time limit', async (t) => {
  const graceMs = { identified: 60_000, accounts: 60_000, anonymous: 1 };
  const limits = { graceMs, crowd: 1, bodyTimeoutMs: 600_000 };
  const { port, observed } = await openTestDoor(t, { routes, limits });
  const begin = () => {
    const wire = openWire(t, port);
    wire.write(`${requestText('POST', '/v1/open', [JSON_TYPE, 'Content-Length: 2'])}{`);
    return wire;
  };
  const slow = [begin(), begin()];
  const isLate = (wire: Wire) => wire.closed.then(() => wire);
  const late = await Promise.race(slow.map(isLate));
  t.match(await late.reply(), { status: 408, headers: { connection: 'close' }, json: { code: 'REQUEST_TIMEOUT' } });
  t.match(observed, [{ status: 408, route: '/v1/open' }]);
  const left = slow.find((wire) => wire !== late);
  left?.write('}');
  t.match(await left?.reply(), { status: 200 }, 'the last slow body has its whole time limit');
});

// 256 bodies of the largest size of a save fill the budget, as at the defaults: 256 MiB, and 1 MiB for each.
const [SAVE, EVENT] = [4_096, 32_768];
const limits = { bodyBudgetBytes: 256 * SAVE };
const sender = internalSender({
  senders: ['exam-service', 'classroom-service'],
  token: ['token'],
  unauthorizedCode: 'UNAUTHENTICATED',
  unconfiguredCode: 'UNAVAILABLE',
});
const shareRoutes = [
  echoRoute({ path: '/v1/save', guards: [identity()], body: { schema: 'test/body', maxBytes: SAVE } }),
  echoRoute({ path: '/v1/event', guards: [sender], body: { schema: 'test/body', maxBytes: EVENT } }),
];
const student = (id: string) => [`X-User-Id: ${id}`, 'X-User-Role: STUDENT', JSON_TYPE];
const service = (name: string) => [`X-Internal-Service: ${name}`, 'X-Internal-Token: token', JSON_TYPE];
const [full, ok] = [{ status: 503, headers: { 'retry-after': '1' }, json: { code: 'UNAVAILABLE' } }, { status: 200 }];
/** Returns a body of the largest size. */
const whole = (size: number) => '{}'.padEnd(size);

/** Sends so many bodies without their last byte. Returns the connections of those `left` bodies that the door has not refused. */
async function flood(
  t: Test,
  { port, observed }: TestDoor,
  request: { head: string; size: number; count: number; left: number },
): Promise<Wire[]> {
  const { head, size, count, left } = request;
  const wires = Array.from({ length: count }, () => {
    const wire = openWire(t, port);
    wire.write(`${head}${' '.repeat(size - 1)}`);
    return wire;
  });
  const refused = new Set<Wire>();
  for (const wire of wires) {
    void wire.reply().then(
      (reply) => {
        refused.add(wire);
        t.match(reply, full);
      },
      () => undefined,
    );
  }
  return until(`${left} bodies are awaited`, () => {
    const waiting = wires.filter((wire) => !refused.has(wire));
    return observed.length === count - left && waiting.length === left && waiting;
  });
}

t.test('256 half-sent saves of one student refuse no save of another', async (t) => {
  const test = await openTestDoor(t, { routes: shareRoutes, limits });
  const head = requestText('POST', '/v1/save', [...student('an'), `Content-Length: ${SAVE}`]);
  await flood(t, test, { head, size: SAVE, count: 256, left: 8 });
  t.equal(test.door.bodyBudget('identified').used(), 8 * (SAVE - 1));

  const save = (id: string) => ask(t, test.port, 'POST', '/v1/save', student(id), whole(SAVE));
  for (let n = 0; n < 3; n += 1) t.match(await save('binh'), ok);
  t.match(await save('an'), full, 'the flooding student');
});

t.test('the half-sent events of one service leave room for other services and for students', async (t) => {
  const test = await openTestDoor(t, { routes: shareRoutes, limits });
  const head = requestText('POST', '/v1/event', [...service('exam-service'), `Content-Length: ${EVENT}`]);
  const [waiting] = await flood(t, test, { head, size: EVENT, count: 12, left: 1 });
  t.equal(test.door.bodyBudget('identified').used(), EVENT - 1);

  t.match(await ask(t, test.port, 'POST', '/v1/event', service('classroom-service'), whole(EVENT)), ok);
  t.match(await ask(t, test.port, 'POST', '/v1/save', student('an'), whole(SAVE)), ok);
  const before = test.observed.length;
  waiting?.socket.destroy();
  await until('the connection has ended', () => test.observed.length > before);
  t.match(
    await ask(t, test.port, 'POST', '/v1/event', service('exam-service'), whole(EVENT)),
    ok,
    'its share is released',
  );
});

const hello = requestText('POST', '/v1/echo/a');
const answered = { status: 200 };

async function openSmallDoor(t: Test, maxConnections: number, trustedProxies: readonly string[] = []) {
  const { port, dropped } = await openTestDoor(t, {
    routes: [echoRoute()],
    limits: { maxConnections },
    trustedProxies,
  });
  return { dropped, open: () => openWire(t, port) };
}

async function speak(wire: Wire) {
  wire.write(hello);
  return wire.reply();
}

t.test('connections that send nothing make room for new ones, the oldest first', async (t) => {
  const { dropped, open } = await openSmallDoor(t, 4);
  const working = open();
  t.match(await speak(working), answered);
  const silent = [open(), open(), open(), open()];
  await silent[0]?.closed;
  const next = open();
  t.match(await speak(next), answered, 'a new client');
  t.match(await speak(working), answered, 'a client that has sent a request stays');
  await silent[1]?.closed;
  t.same(dropped, ['silent', 'silent', 'silent']);
});

t.test('a connection beyond the limit is closed without a reply', async (t) => {
  const { dropped, open } = await openSmallDoor(t, 2);
  const first = open();
  t.match(await speak(first), answered);
  t.match(await speak(open()), answered);
  await open().closed;
  t.same(dropped, ['full']);
  first.socket.destroy();
  await until('there is room again', async () => {
    const status = await speak(open()).then(
      (reply) => reply.status,
      () => null,
    );
    return status === 200;
  });
});

t.test('one address holds at most an eighth of the connections, unless it is a trusted proxy', async (t) => {
  const behindProxies = await openSmallDoor(t, 16, ['10.0.0.0/8']);
  const [first, second] = [behindProxies.open(), behindProxies.open()];
  t.match(await speak(first), answered);
  t.match(await speak(second), answered);
  await behindProxies.open().closed;
  t.same(behindProxies.dropped, ['address']);
  first.socket.destroy();
  await until('the share is released', async () => {
    const reply = await speak(behindProxies.open()).catch(() => null);
    return reply?.status === 200;
  });

  for (const proxies of [[], ['127.0.0.1']]) {
    const door = await openSmallDoor(t, 16, proxies);
    for (let n = 0; n < 10; n += 1) t.match(await speak(door.open()), answered);
    t.same(door.dropped, []);
  }
});
