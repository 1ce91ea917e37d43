import fc from 'fast-check';
import t from 'tap';
import { FREE_FAILURES, MAX_VERIFIED, waitAfter } from './throttle.ts';

t.test('fewer than five failed logins cost no wait, then the wait doubles up to fifteen minutes', async (t) => {
  const waits = Array.from({ length: 17 }, (_, failures) => waitAfter(failures) / 1_000);
  t.strictSame(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
  t.equal(waitAfter(FREE_FAILURES - 1), 0);
  t.equal(waitAfter(MAX_VERIFIED), 900_000);
});

t.test('the wait after failed logins is whole, never decreases and is bounded for any count', async (t) => {
  fc.assert(
    fc.property(fc.nat(), (failures) => {
      const [wait, next] = [waitAfter(failures), waitAfter(failures + 1)];
      return Number.isInteger(wait) && wait >= 0 && wait <= next && next <= 900_000;
    }),
  );
  t.equal(waitAfter(Number.MAX_SAFE_INTEGER), 900_000);
});
