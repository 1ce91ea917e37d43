import t from 'tap';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { afterFailure, FAILING_MS } from './subscription.ts';

const NOW = 1_790_000_000_000;
const failure = { now: NOW, isGone: false };
const ago = (ms: number) => new Date(NOW - ms);

t.test('a first failure begins the count', async (t) => {
  t.match(afterFailure({ failingSince: null, pausedUntil: null }, failure), { failingSince: new Date(NOW) });
});

t.test('a receiver that fails again and again for three days is disabled', async (t) => {
  const ended = afterFailure({ failingSince: ago(FAILING_MS), pausedUntil: ago(MINUTE) }, failure);
  t.match(ended, { state: 'DISABLED', disabledReason: 'FAILING', failingSince: ago(FAILING_MS) });
});

t.test('a failure after a silence counts as the first one', async (t) => {
  for (const pausedUntil of [ago(7 * HOUR), null]) {
    const ended = afterFailure({ failingSince: ago(FAILING_MS), pausedUntil }, failure);
    t.match(ended, { failingSince: new Date(NOW), pausedUntil: new Date(NOW + 30_000) });
    t.equal(ended.state, undefined);
  }
});

t.test('a receiver that answers 410 is disabled at once', async (t) => {
  const ended = afterFailure({ failingSince: null, pausedUntil: null }, { now: NOW, isGone: true });
  t.match(ended, { state: 'DISABLED', disabledReason: 'GONE' });
});
