import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import type { Mongo } from './connect.ts';
import { openServerClock } from './server-clock.ts';

/** Tolerance of a comparison: far below every offset here, and longer than a busy machine pauses between two readings. */
const NEAR_MS = 10_000;

/** Returns a server whose clock is ahead by `aheadMs` and whose replies arrive `wayBackMs` late. */
function fakeServer() {
  const server = { aheadMs: 0, wayBackMs: 0, asked: 0 };
  const command = async () => {
    server.asked += 1;
    const localTime = new Date(Date.now() + server.aheadMs);
    await delay(server.wayBackMs);
    return { localTime };
  };
  return { server, mongo: { db: { admin: () => ({ command }) } } as unknown as Mongo };
}

t.test('the server clock returns the time of the server, not of the process', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.aheadMs = 3_600_000;
  await clock.measure();
  t.ok(Math.abs(clock.now() - Date.now() - 3_600_000) < NEAR_MS);
});

t.test('a slow reply does not change an offset measured by a quick one', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  // The whole delay is on the way back. If the reply were accepted, the clock would be wrong by half of the delay.
  server.wayBackMs = 400;
  await clock.measure();
  t.ok(Math.abs(clock.now() - Date.now()) < 150, `off by ${clock.now() - Date.now()} ms`);
});

t.test('the server clock accepts a slow reply if it has no better one, and measures again', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.wayBackMs = 60;
  server.aheadMs = -500_000;
  await clock.measure();
  t.ok(server.asked > 1);
  t.ok(Math.abs(clock.now() - Date.now() + 500_000) < NEAR_MS);
});

t.test('the server clock follows a server whose clock was set, even if its reply is slow', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  server.aheadMs = -3_600_000;
  server.wayBackMs = 50;
  await clock.measure();
  t.ok(Math.abs(clock.now() - Date.now() + 3_600_000) < NEAR_MS);
});
