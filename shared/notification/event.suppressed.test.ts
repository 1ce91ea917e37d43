import t from 'tap';
import { MAX_SUPPRESSED, newEvent } from './event.ts';
import type { Suppression } from './preferences.ts';

const stored = (suppressed: readonly Suppression[]) =>
  newEvent(
    { sourceService: 's', sourceEventId: 'e' },
    { id: 'f', now: new Date(0), created: 0, organizationId: null, suppressed },
  );

t.test('an event that notified every recipient stores nothing about suppression', async (t) => {
  const event = stored([]);
  t.notOk('suppressed' in event);
  t.notOk('suppressedCounts' in event);
});

t.test('an event lists whom it did not notify and why, and counts an erased person only', async (t) => {
  const event = stored([
    { userId: 'a', reason: 'MUTED' },
    { userId: 'gone', reason: 'ERASED' },
    { userId: 'b', reason: 'TYPE_DISABLED' },
    { userId: 'c', reason: 'MUTED' },
  ]);
  t.strictSame(event.suppressed, [
    { userId: 'a', reason: 'MUTED' },
    { userId: 'b', reason: 'TYPE_DISABLED' },
    { userId: 'c', reason: 'MUTED' },
  ]);
  t.strictSame(event.suppressedCounts, { MUTED: 2, ERASED: 1, TYPE_DISABLED: 1 });
});

t.test('the list is bounded, and the counts are not', async (t) => {
  const many = Array.from({ length: 10_000 }, (_, n): Suppression => ({ userId: `user-${n}`, reason: 'MUTED' }));
  const event = stored(many);
  t.equal(event.suppressed?.length, MAX_SUPPRESSED);
  t.strictSame(event.suppressedCounts, { MUTED: 10_000 });
  t.ok(JSON.stringify(event.suppressed).length < 64 * 1_024);
});
