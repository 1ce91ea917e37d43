import fc from 'fast-check';
import t from 'tap';
import { shuffledPositions } from './new-attempt.ts';

t.test('shuffled positions are a permutation that depends on the seed only', async () => {
  fc.assert(
    fc.property(fc.nat(500), fc.string(), (length, seed) => {
      const order = shuffledPositions(length, seed);
      const sorted = order.toSorted((one, other) => one - other);
      return (
        sorted.every((position, index) => position === index) && order.join() === shuffledPositions(length, seed).join()
      );
    }),
  );
});

t.test('shuffled positions are the same in every process and in every version of Node', async (t) => {
  t.strictSame(shuffledPositions(8, 'seed-1'), STORED);
});

t.test('a shuffle depends on more than 32 bits of its seed', async (t) => {
  // These two seeds have the same value in xmur3, a hash of 32 bits.
  const [one, other] = ['0BsM40uctdYPYrCsKJgBGH', '96bBfPhNRuW6tGVxk1Ukc3'];
  t.notSame(shuffledPositions(100, `${one}:questions`), shuffledPositions(100, `${other}:questions`));
});

t.test('shuffling moves every question to every place about equally often', async (t) => {
  const counts = Array.from({ length: 5 }, () => [0, 0, 0, 0, 0]);
  for (let seed = 0; seed < 10_000; seed += 1) {
    for (const [place, position] of shuffledPositions(5, `fair-${seed}`).entries()) {
      const row = counts[position];
      if (row) row[place] = (row[place] ?? 0) + 1;
    }
  }
  for (const count of counts.flat()) t.ok(count > 1_800 && count < 2_200, String(count));
});

const STORED = [0, 4, 6, 3, 7, 5, 1, 2];
