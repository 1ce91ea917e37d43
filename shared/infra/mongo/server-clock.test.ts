import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import type { Mongo } from './connect.ts';
import { openServerClock } from './server-clock.ts';

/** Far from every offset here, and more than a busy machine stands still between two readings. */
const NEAR_MS = 10_000;

/** A server whose clock is ahead by `aheadMs`, and whose answers are under way for `wayBackMs`. */
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

t.test('tells the server’s time, not its own', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.aheadMs = 3_600_000;
  await clock.measure();
  t.ok(Math.abs(clock.now() - Date.now() - 3_600_000) < NEAR_MS);
});

t.test('a slow answer does not move what a quick one has told', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  // All of it on the way back: taken at its word, this would put the clock behind by half of it.
  server.wayBackMs = 400;
  await clock.measure();
  t.ok(Math.abs(clock.now() - Date.now()) < 150, `off by ${clock.now() - Date.now()} ms`);
});

t.test('a slow answer is better than none, and is asked for again', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.wayBackMs = 60;
  server.aheadMs = -500_000;
  await clock.measure();
  t.ok(server.asked > 1);
  t.ok(Math.abs(clock.now() - Date.now() + 500_000) < NEAR_MS);
});

t.test('a server whose clock was set is followed, however slow its answer', async (t) => {
  const { mongo, server } = fakeServer();
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  server.aheadMs = -3_600_000;
  server.wayBackMs = 50;
  await clock.measure();
  t.ok(Math.abs(clock.now() - Date.now() + 3_600_000) < NEAR_MS);
});
