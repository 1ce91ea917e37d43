import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { settlesWithin, withTimeout } from './background.ts';

const LONG_MS = 60_000;
const never = () => new Promise<never>(() => undefined);
const late = () => new Error('late');

t.test('a time limit passes on the result of work that ends in time, and leaves no timer', async (t) => {
  t.equal(await withTimeout(Promise.resolve(1), LONG_MS, late), 1);
  await t.rejects(withTimeout(Promise.reject(new Error('its own')), LONG_MS, late), { message: 'its own' });
  t.equal(await settlesWithin(Promise.resolve(), LONG_MS), true);
  await t.rejects(settlesWithin(Promise.reject(new Error('its own')), LONG_MS), { message: 'its own' });
  t.notOk(process.getActiveResourcesInfo().includes('Timeout'));
});

t.test('a time limit stops waiting for late work, and its later rejection is ignored', async (t) => {
  await t.rejects(withTimeout(never(), 1, late), { message: 'late' });
  t.equal(await settlesWithin(never(), 1), false);
  const failing = delay(20).then(() => Promise.reject(new Error('too late to matter')));
  t.equal(await settlesWithin(failing, 1), false);
  await t.rejects(failing);
});
