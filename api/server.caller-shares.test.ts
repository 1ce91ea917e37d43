import t, { type Test } from 'tap';
import { identity } from '#api/http/guards/identity.ts';
import { internalSender } from '#api/http/guards/senders.ts';
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

// 256 bodies of the largest size of a save fill the budget, as at the defaults: 256 MiB, and 1 MiB for each.
const [SAVE, EVENT] = [4_096, 32_768];
const limits = { bodyBudgetBytes: 256 * SAVE };
const sender = internalSender({
  senders: ['exam-service', 'classroom-service'],
  token: ['token'],
  unauthorizedCode: 'UNAUTHENTICATED',
  unconfiguredCode: 'UNAVAILABLE',
});
const routes = [
  echoRoute({ path: '/v1/save', guards: [identity()], body: { schema: 'test/body', maxBytes: SAVE } }),
  echoRoute({ path: '/v1/event', guards: [sender], body: { schema: 'test/body', maxBytes: EVENT } }),
];
const student = (id: string) => [`X-User-Id: ${id}`, 'X-User-Role: STUDENT', JSON_TYPE];
const service = (name: string) => [`X-Internal-Service: ${name}`, 'X-Internal-Token: token', JSON_TYPE];
const [busy, ok] = [{ status: 503, headers: { 'retry-after': '1' }, json: { code: 'UNAVAILABLE' } }, { status: 200 }];
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
        t.match(reply, busy);
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
  const test = await openTestDoor(t, { routes, limits });
  const head = requestText('POST', '/v1/save', [...student('an'), `Content-Length: ${SAVE}`]);
  await flood(t, test, { head, size: SAVE, count: 256, left: 8 });
  t.equal(test.door.bodyBudget('identified').used(), 8 * (SAVE - 1));

  const save = (id: string) => ask(t, test.port, 'POST', '/v1/save', student(id), whole(SAVE));
  for (let n = 0; n < 3; n += 1) t.match(await save('binh'), ok);
  t.match(await save('an'), busy, 'the flooding student');
});

t.test('the half-sent events of one service leave room for other services and for students', async (t) => {
  const test = await openTestDoor(t, { routes, limits });
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
