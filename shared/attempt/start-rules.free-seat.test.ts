import fc from 'fast-check';
import t from 'tap';
import { freeSeat } from './start-rules.ts';

t.test('any free seat of an empty link, none of a full one', async (t) => {
  const empty = { taken: [], unnumbered: 0, limit: 3 };
  t.strictSame(
    [0, 0.34, 0.999].map((random) => freeSeat(empty, random)),
    [0, 1, 2],
  );
  t.equal(freeSeat({ taken: [2, 0, 1], unnumbered: 0, limit: 3 }, 0), null);
  t.equal(freeSeat({ taken: [0, 2], unnumbered: 0, limit: 3 }, 0.9), 1);
  t.equal(freeSeat({ taken: [], unnumbered: 3, limit: 3 }, 0), null);
});

t.test('a lowered limit counts those beyond it', async (t) => {
  // Two of five sit on 3 and 4; of three there is one place left, and two who draw at once must want the same one.
  const lowered = { taken: [3, 4], unnumbered: 0, limit: 3 };
  t.strictSame(
    [0, 0.5, 0.99].map((random) => freeSeat(lowered, random)),
    [0, 0, 0],
  );
  t.equal(freeSeat({ taken: [3, 4], unnumbered: 2, limit: 5 }, 0.9), 0);
});

t.test('a limit of billions costs nothing', async (t) => {
  const seat = freeSeat({ taken: [5, 1], unnumbered: 0, limit: Number.MAX_SAFE_INTEGER }, 0.5);
  t.ok(Number.isSafeInteger(seat));
});

t.test('however many draw from stale reads, the link holds no more than its limit', async () => {
  const someone = fc.record({
    reads: fc.nat(40),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(20), { maxLength: 8 }),
      fc.nat(4),
      fc.integer({ min: 1, max: 12 }),
      fc.array(someone, { maxLength: 40 }),
      (before, unnumbered, limit, comers) => {
        // Each comer has read the seats as they were some moves ago; the unique index refuses a seat that is taken.
        const history: number[][] = [before];
        const seated = new Set(before);
        for (const { reads, random } of comers) {
          const seen = history[Math.max(0, history.length - 1 - reads)] ?? before;
          const seat = freeSeat({ taken: seen, unnumbered, limit }, random);
          if (seat === null || seated.has(seat)) continue;
          seated.add(seat);
          history.push([...seated]);
        }
        return seated.size + unnumbered <= Math.max(limit, before.length + unnumbered);
      },
    ),
  );
});
