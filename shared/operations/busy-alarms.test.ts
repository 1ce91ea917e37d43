import t from 'tap';
import { MINUTE } from '#shared/kernel/time.ts';
import { BUSY_COUNTS_MS, busyAlarms, longestHeld } from './busy-alarms.ts';

const NOW = Date.parse('2026-11-23T08:05:00Z');
const held = (heldMs: number, agoMs = MINUTE) => ({ heldMs, at: new Date(NOW - agoMs) });

t.test('each process that one piece of work held is one alarm with its longest recent piece', async (t) => {
  const [web, grading] = ['web@a:7', 'grading@b:9:1f'];
  const alarms = busyAlarms(
    [
      { process: web, ...held(2_500) },
      { process: web, ...held(60_000, BUSY_COUNTS_MS) },
      { process: grading, ...held(9_240, 2 * MINUTE) },
      { process: web, ...held(3_900) },
      { process: 'delivery@c:3', ...held(2_499) },
    ],
    NOW,
  );
  const remedy = 'read its log at 2026-11-23T08:03:00.000Z: the request or the run that ended then is the cause';
  const text = 'grading@b:9:1f: one piece of work held its event loop for 9.2 s, 2 min ago';
  t.strictSame(alarms[0], { kind: 'busy-loop', about: grading, heldMs: 9_240, text, remedy });
  t.match(alarms.slice(1), [{ about: web, heldMs: 3_900 }]);
  t.equal(alarms.length, 2, 'neither shorter nor old pieces');
});

t.test('a longer piece replaces a shorter one, and any replaces an old one', async (t) => {
  t.equal(longestHeld(null, null, NOW), null);
  const [short, long, old] = [held(1_000), held(2_000), held(9_000, BUSY_COUNTS_MS)];
  t.equal(longestHeld(short, long, NOW), long);
  t.equal(longestHeld(long, short, NOW), long);
  t.equal(longestHeld(old, short, NOW), short);
  t.equal(longestHeld(old, null, NOW), null);
});
