import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { authRoutes } from '#api/auth/routes.ts';
import type { ClassifierDeps } from '#api/classifier/deps.ts';
import { classifierRoutes } from '#api/classifier/mount.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import { ESSAY_BODY, type Identity, LARGE_BODY, SMALL_BODY } from '#api/route.ts';
import { JSON_TYPE, openWire, requestText } from '#testing/doors/test-door.ts';
import { openBodyReader } from './body.ts';
import { callersOf, holderOf, limitsOf, openBodyBudget } from './body-budget.ts';
import { isTooSlow, openDeadlines } from './deadlines.ts';
import { newExchange, readHead } from './exchange.ts';
import { withIgnored } from './parsed-body.ts';
import { NO_SNIFFING } from './reply.ts';

/** Reads each body that arrives at `port`, and notes how. */
async function openReader(t: Test) {
  const bodies = openBodyReader({ bodyTimeoutMs: 5_000, bodyBudgetBytes: 1 << 20, maxConnections: 16 }, () => '');
  const reads: { text: string; listeners: number }[] = [];
  const server = createServer(async (request, response) => {
    const exchange = newExchange(request, response, true);
    const reading = bodies.read(exchange, readHead(request, 'POST', '/', {}), {
      maxBytes: 1_024,
      isForm: false,
      callers: 'identified',
    });
    const read = await reading;
    // A reader that listens leaves its listeners on a request that has ended.
    reads.push({
      text: read.kind === 'read' ? read.bytes.toString() : read.kind,
      listeners: request.listenerCount('data'),
    });
    response.setHeader(...NO_SNIFFING).end('{}');
    bodies.release(exchange);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return { port: (server.address() as AddressInfo).port, reads, bodies };
}

t.test(
  'a body in the packet of its head is read without listeners, and the connection serves the next request',
  async (t) => {
    const { port, reads, bodies } = await openReader(t);
    const wire = openWire(t, port);
    for (const name of ['a', 'b', 'c']) {
      wire.write(requestText('POST', '/', [JSON_TYPE], `{"name":"${name}"}`));
      t.match(await wire.reply(), { status: 200 });
    }
    t.strictSame(
      reads,
      ['a', 'b', 'c'].map((name) => ({ text: `{"name":"${name}"}`, listeners: 0 })),
    );
    t.equal(bodies.budget('identified').used(), 0);
  },
);

t.test('pipelined bodies are read one by one', async (t) => {
  const { port, reads } = await openReader(t);
  const wire = openWire(t, port);
  const requests = ['a', 'b'].map((name) => requestText('POST', '/', [JSON_TYPE], `{"name":"${name}"}`));
  wire.write(requests.join(''));
  t.match(await wire.reply(), { status: 200 });
  t.match(await wire.reply(), { status: 200 });
  t.strictSame(
    reads.map(({ text }) => text),
    ['{"name":"a"}', '{"name":"b"}'],
  );
});

t.test('a body that arrives after its head is collected', async (t) => {
  const { port, reads } = await openReader(t);
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/', [JSON_TYPE, 'Content-Length: 12'])}{"na`);
  await new Promise((resolve) => setImmediate(resolve));
  wire.write('me":"a"}');
  t.match(await wire.reply(), { status: 200 });
  t.match(reads, [{ text: '{"name":"a"}' }]);
});

t.test('a reply names the fields of the body that were dropped, long ones by their beginning', async (t) => {
  const names = ['className', '😀'.repeat(65), `a${'😀'.repeat(100)}`, 'k'.repeat(1_000_000), '\ud800'];
  const dropped = [...names.map((name) => ({ path: '/x', name })), { path: '/payload/x', name: 'inner' }];
  const { data } = withIgnored({ status: 200, data: { a: 1 } }, dropped);
  const ignored = ['className', `${'😀'.repeat(64)}...`, `a${'😀'.repeat(63)}...`, `${'k'.repeat(128)}...`, '\ufffd'];
  t.strictSame(data, { a: 1, ignored });
  const reply = { status: 200, data: {} };
  t.equal(withIgnored(reply, []), reply);
});

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

const MIB = 1 << 20;

t.test('the share of one address has room for a school and for a body of the largest size', async (t) => {
  const { anonymous, accounts } = limitsOf({ bodyBudgetBytes: 256 * MIB, maxConnections: 32_768 });
  t.same(anonymous, { bodyBytes: 32 * MIB, requests: 16_384 });
  t.same(accounts, { bodyBytes: 32 * MIB, requests: 4_096 });
  const least = limitsOf({ bodyBudgetBytes: 8 * MIB, maxConnections: 1_024 });
  t.equal(least.anonymous.bodyBytes, 8 * SMALL_BODY);
});

t.test('an identified caller holds 1/32 of the budget, and at least one body of its route', async (t) => {
  const person = { actor: { id: 'student-1', role: 'STUDENT' } };
  /** Returns the number of bodies of the largest size that one caller holds at once. */
  const held = (budgetMib: number, identity: Identity, bytes: number) => {
    const budget = openBodyBudget({ bodyBytes: budgetMib * MIB, requests: Number.POSITIVE_INFINITY });
    let count = 0;
    while (count < 1_000 && budget.enter(holderOf(identity, bytes))?.charge(bytes) === true) count += 1;
    return count;
  };
  t.equal(held(256, person, ESSAY_BODY), 8, 'saves of 1 MiB');
  t.equal(held(256, person, LARGE_BODY), 1, 'starts of 8 MiB');
  t.equal(held(256, { ...person, sender: 'api-gateway' }, LARGE_BODY), 1, 'a service that passes on a person');
  t.equal(held(256, { sender: 'exam-service' }, LARGE_BODY), 1, 'events of 8 MiB');
  t.equal(held(256, { sender: 'exam-service' }, MIB), 8, 'events of 1 MiB');
  t.equal(held(256, { operator: 'OPS_TOKEN' }, SMALL_BODY), 32, 'bulk acts of an operator');
  t.equal(held(8, person, LARGE_BODY), 1, 'in the smallest budget');
  t.equal(held(8, person, ESSAY_BODY), 1);
});

t.test('a share is counted by caller and is released with the request', async (t) => {
  const budget = openBodyBudget({ bodyBytes: 3_200, requests: Number.POSITIVE_INFINITY });
  const enter = (id: string) => budget.enter(holderOf({ actor: { id, role: 'STUDENT' } }, 1));
  const [first, second] = [enter('an'), enter('an')];
  t.equal(first?.charge(60), true);
  t.equal(second?.charge(41), false, 'both requests of one caller are one share');
  t.equal(enter('binh')?.charge(100), true);
  first?.release();
  t.equal(second?.charge(100), true);
  second?.release();
  t.equal(budget.used(), 100);
});

/** The pace of a crowd: the least rate binds every body. */
const PACE = { limitMs: 20_000, graceMs: 10_000, leastRate: 1_024, crowd: 0 };

t.test('a body is too slow below the least rate after its grace, and beyond its time limit', async (t) => {
  for (const [received, ageMs, wanted] of [
    [0, 9_999, false],
    [0, 10_001, true],
    [1, 10_001, true],
    [1_024, 11_000, false],
    [1_023, 11_000, true],
    [10_240, 19_999, false],
    [1 << 20, 20_000, true],
  ] as const) {
    t.equal(isTooSlow(received, ageMs, 1, PACE), wanted, `${received} bytes after ${ageMs} ms`);
  }
  const perMs = 8_192 / 17_000;
  const endedAt = Array.from({ length: 17_000 }, (_, ms) => ms).filter((ms) => isTooSlow(perMs * ms, ms, 1, PACE));
  t.same(endedAt, [], 'an answer of 8 KiB may take 17 s');
});

t.test('bodies that are no crowd have the whole time limit at any rate', async (t) => {
  const pace = { ...PACE, crowd: 32 };
  t.equal(isTooSlow(0, 19_999, 32, pace), false);
  t.equal(isTooSlow(0, 20_000, 32, pace), true);
  t.equal(isTooSlow(0, 19_999, 33, pace), true, 'one body more is a crowd');
});

/** Deadlines with a clock of the test. `pass` lets time pass in steps of a check. */
function openTimed(t: Test, crowd = PACE.crowd) {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const clock = { now: 0 };
  return {
    ...openDeadlines({ ...PACE, crowd }, () => clock.now),
    clock,
    pass(ms: number) {
      for (let left = ms; left > 0; left -= 500) {
        clock.now += 500;
        mock.timers.tick(500);
      }
    },
  };
}

t.test('the deadlines end slow bodies, and only those', async (t) => {
  const { add, remove, pass, clock } = openTimed(t);
  const late: string[] = [];
  const slow = add(() => late.push('slow'));
  const fast = add(() => late.push('fast'));
  const done = add(() => late.push('done'));
  slow.received = 100;
  fast.received = 100_000;
  remove(done);
  pass(10_000);
  t.same(late, []);
  pass(500);
  t.same(late, ['slow']);
  pass(9_000);
  add(() => late.push('young'));
  pass(500);
  t.same(late, ['slow', 'fast'], 'the time limit ends a fast body too');

  clock.now += 60_000;
  mock.timers.tick(500);
  t.same(late, ['slow', 'fast'], 'a pause of the process does not count');
  pass(11_000);
  t.same(late, ['slow', 'fast', 'young']);
});

t.test('slow bodies end, the oldest first, until the rest is no crowd', async (t) => {
  const { add, pass } = openTimed(t, 2);
  const late: string[] = [];
  for (const name of ['first', 'second', 'third', 'fourth']) add(() => late.push(name));
  pass(10_500);
  t.same(late, ['first', 'second']);
  pass(9_000);
  t.same(late, ['first', 'second']);
  pass(500);
  t.same(late, ['first', 'second', 'third', 'fourth'], 'the time limit ends the rest');
});

t.test('many slow bodies end in groups, with other work between them', async (t) => {
  const { add, pass } = openTimed(t);
  let late = 0;
  for (let n = 0; n < 100; n += 1) {
    add(() => {
      late += 1;
    });
  }
  pass(10_500);
  t.equal(late, 32);
  for (let group = 1; group < 4; group += 1) await new Promise(setImmediate);
  t.equal(late, 100);
});
