import t from 'tap';
import type { Command } from '#shared/kernel/command.ts';
import { until } from '#testing/until.ts';
import { holdLease } from './life.ts';

t.test('a failed lease renewal is reported once and repeated; a refused one loses the lease', async (t) => {
  const outage = new Error('away');
  const told: unknown[] = [];
  let tries = 0;
  const lease = holdLease({ _id: 'c-1' } as Command, {
    leaseMs: 30,
    async renew() {
      tries += 1;
      if (tries <= 3) throw outage;
      return tries <= 5;
    },
    failed: (error) => void told.push(error),
    stop: new AbortController().signal,
  });
  t.teardown(lease.end);
  await until('three have failed', () => tries >= 3);
  t.equal(lease.lost(), false, 'a lease is not lost by an outage');
  await until('refused', () => lease.lost());
  t.ok(lease.signal.aborted);
  t.equal(tries, 6);
  t.strictSame(told, [outage]);
});
