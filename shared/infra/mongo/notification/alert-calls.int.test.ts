import t from 'tap';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { countAlertCall } from './alert-calls.ts';
import { alertCalls } from './collections.ts';

t.test('calls at the same time exceed no limit, the first calls of an actor included', async (t) => {
  const mongo = await openTestMongo(t);
  const count = (actorId: string) => countAlertCall(mongo, actorId, { limit: 5, now: Date.now() });
  const results = await Promise.all(Array.from({ length: 20 }, (_, n) => count(n % 2 === 0 ? 'an' : 'binh')));
  for (const parity of [0, 1]) {
    const own = results.filter((_, n) => n % 2 === parity);
    t.equal(own.filter(({ kind }) => kind === 'counted').length, 5);
  }
  t.strictSame(await alertCalls(mongo).countDocuments({}), 2);
});

t.test('a call is free again when the oldest counted call is an hour old', async (t) => {
  const mongo = await openTestMongo(t);
  const now = Date.now();
  const at = (msAgo: number) => new Date(now - msAgo);
  const count = () => countAlertCall(mongo, 'an', { limit: 3, now });
  await alertCalls(mongo).insertOne({
    _id: 'an',
    calls: [at(HOUR + MINUTE), at(40 * MINUTE), at(20 * MINUTE)],
    lastAt: at(20 * MINUTE),
  });
  t.match(await count(), { kind: 'counted' }, 'the first of the three is forgotten');
  t.strictSame(await count(), { kind: 'refused', retryAfterMs: 20 * MINUTE });
  t.equal((await alertCalls(mongo).findOne({ _id: 'an' }))?.calls.length, 3);
});
