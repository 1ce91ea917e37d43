import { mock } from 'node:test';
import t, { type Test } from 'tap';
import type { Mongo } from './connect.ts';
import { openServerClock } from './server-clock.ts';

/**
 * Returns a server whose clock is ahead by `aheadMs` and whose replies arrive `wayBackMs` late. The clocks of this process advance by
 * these delays only, so that a pause of the machine changes no measurement.
 */
function fakeServer(t: Test) {
  const server = { aheadMs: 0, wayBackMs: 0, asked: 0 };
  const began = { clock: performance.now(), wall: Date.now() };
  let passed = 0;
  const clocks = [
    mock.method(performance, 'now', () => began.clock + passed),
    mock.method(Date, 'now', () => began.wall + passed),
  ];
  t.teardown(() => {
    for (const clock of clocks) clock.mock.restore();
  });
  const command = async () => {
    server.asked += 1;
    const localTime = new Date(Date.now() + server.aheadMs);
    passed += server.wayBackMs;
    return { localTime };
  };
  return { server, mongo: { db: { admin: () => ({ command }) } } as unknown as Mongo };
}

t.test('the server clock returns the time of the server, not of the process', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.aheadMs = 3_600_000;
  await clock.measure();
  t.equal(clock.now() - Date.now(), 3_600_000);
});

t.test('a slow reply does not change an offset measured by a quick one', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  // The whole delay is on the way back. If the reply were accepted, the clock would be wrong by half of the delay.
  server.wayBackMs = 400;
  await clock.measure();
  t.equal(clock.now() - Date.now(), 0);
});

t.test('the server clock accepts a slow reply if it has no better one, and measures again', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.wayBackMs = 60;
  server.aheadMs = -500_000;
  await clock.measure();
  t.equal(server.asked, 4);
  t.equal(clock.now() - Date.now() + 500_000, -30, 'wrong by half a round trip');
});

t.test('the server clock follows a server whose clock was set, even if its reply is slow', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  server.aheadMs = -3_600_000;
  server.wayBackMs = 50;
  await clock.measure();
  t.equal(clock.now() - Date.now() + 3_600_000, -25, 'wrong by half a round trip');
});
