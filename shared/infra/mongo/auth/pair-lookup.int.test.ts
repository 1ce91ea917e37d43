import t from 'tap';
import { KNOWN_FOR_MS } from '#shared/auth/address-rule.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { learnPair, openPairLookup, pairOf } from './known-pairs.ts';

const mongo = await openTestMongo(t);
const ADDRESS = '203.0.113.7';
const pupil = (n: number) => pairOf(`pupil ${n}`, ADDRESS);

/** Opens a look-up, and counts the keys of each read that it sends. */
function openCounted() {
  const reads: number[] = [];
  const db = tappedDb(mongo, (method, name) => {
    if (name !== 'find') return undefined;
    return (filter, ...rest) => {
      reads.push((filter as { _id: { $in: unknown[] } })._id.$in.length);
      return method(filter, ...rest);
    };
  });
  return { isKnown: openPairLookup({ ...mongo, db }, Date.now), reads };
}

t.test('look-ups during a read share the next read', async (t) => {
  await learnPair(mongo, pupil(3), Date.now());
  await learnPair(mongo, pupil(8), Date.now());
  const { isKnown, reads } = openCounted();
  const first = isKnown(pupil(0));
  await new Promise(setImmediate);
  const others = Array.from({ length: 9 }, (_, n) => isKnown(pupil(n + 1)));
  t.equal(await first, false);
  t.same(await Promise.all(others), [false, false, true, false, false, false, false, true, false]);
  t.same(reads, [1, 9]);
  t.equal(await isKnown(pupil(3)), true, 'a look-up later reads again');
  await learnPair(mongo, pupil(0), Date.now());
  t.equal(await isKnown(pupil(0)), true, 'nothing is remembered');
});

t.test('a pair of 30 days ago and the same account elsewhere are strangers', async (t) => {
  const signedInAt = Date.now();
  await learnPair(mongo, pupil(20), signedInAt);
  t.equal(await openPairLookup(mongo, () => signedInAt + KNOWN_FOR_MS - 60_000)(pupil(20)), true);
  t.equal(await openPairLookup(mongo, () => signedInAt + KNOWN_FOR_MS + 60_000)(pupil(20)), false);
  t.equal(await openPairLookup(mongo, Date.now)(pairOf('pupil 20', '198.51.100.1')), false);
});

t.test('a read that fails refuses only those who share it', async (t) => {
  let isDown = true;
  const now = () => {
    if (!isDown) return Date.now();
    isDown = false;
    throw new Error('no clock');
  };
  const isKnown = openPairLookup(mongo, now);
  await learnPair(mongo, pupil(30), Date.now());
  const both = [isKnown(pupil(30)), isKnown(pupil(31))];
  await Promise.all(both.map((one) => t.rejects(one, /no clock/)));
  t.equal(await isKnown(pupil(30)), true);
});
