import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { send } from '#scripts/http/call.ts';
import { answerJson, openReceiver } from '#scripts/http/local-server.ts';
import { openRollingGateway } from './gateway.ts';

/** A front door whose readiness and answers the test sets. */
async function openDoor() {
  const door = { url: '', isReady: true, calls: 0, answer: (_nth: number) => ({ status: 200 }) as Answer };
  door.url = await openReceiver(t, ({ path }, response) => {
    if (path === '/readyz') return answerJson(response, { status: door.isReady ? 200 : 503 });
    door.calls += 1;
    const { status, hangsUp = false, headers } = door.answer(door.calls);
    if (hangsUp) response.destroy();
    else answerJson(response, { status, headers });
  });
  return door;
}

interface Answer {
  status: number;
  headers?: Record<string, string>;
  hangsUp?: boolean;
}

async function openScene() {
  const gateway = await openRollingGateway();
  t.teardown(gateway.close);
  const doors = [await openDoor(), await openDoor()] as const;
  for (const { url } of doors) {
    gateway.join(url);
    await gateway.untilReady(url);
  }
  const call = () => send(gateway.url, { method: 'GET', target: '/x' });
  return { gateway, doors, call };
}

t.test('calls go to ready doors in turn, and to no other', async (t) => {
  const { gateway, doors, call } = await openScene();
  for (let n = 0; n < 4; n++) t.equal((await call()).status, 200);
  t.strictSame(
    doors.map(({ calls }) => calls),
    [2, 2],
  );
  doors[0].isReady = false;
  // The gateway has probed the door again when it has left a call for the other twice in a row.
  for (let before = -1; before !== doors[0].calls; await call()) {
    before = doors[0].calls;
    await call();
    await delay(60);
  }
  const seen = doors[0].calls;
  for (let n = 0; n < 4; n++) await call();
  t.equal(doors[0].calls, seen);
  t.strictSame(gateway.failures, []);
});

t.test('a 503 with Retry-After is followed, and any other 5xx is a failure', async (t) => {
  const { gateway, doors, call } = await openScene();
  for (const door of doors)
    door.answer = (nth) => (nth === 1 ? { status: 503, headers: { 'retry-after': '0' } } : { status: 200 });
  t.equal((await call()).status, 200);
  t.ok(gateway.retried() > 0);
  t.strictSame(gateway.failures, []);
  for (const door of doors) door.answer = () => ({ status: 503 });
  t.equal((await call()).status, 502);
  for (const door of doors) door.answer = () => ({ status: 500 });
  await call();
  t.match(gateway.failures, [/GET \/x: 503/, /GET \/x: 500/]);
});

t.test('a call without a reply is a failure and is not repeated', async (t) => {
  const { gateway, doors, call } = await openScene();
  for (const door of doors) door.answer = () => ({ status: 200, hangsUp: true });
  t.equal((await call()).status, 502);
  t.match(gateway.failures, [/GET \/x: no reply/]);
  t.equal(doors[0].calls + doors[1].calls, 1);
});
