import fc from 'fast-check';
import t from 'tap';
import { freeSeat } from './start-rules.ts';

t.test('drawing a seat returns any free seat, or null if the link is full', async (t) => {
  const empty = { taken: [], unnumbered: 0, limit: 3 };
  t.strictSame(
    [0, 0.34, 0.999].map((random) => freeSeat(empty, random)),
    [0, 1, 2],
  );
  t.equal(freeSeat({ taken: [2, 0, 1], unnumbered: 0, limit: 3 }, 0), null);
  t.equal(freeSeat({ taken: [0, 2], unnumbered: 0, limit: 3 }, 0.9), 1);
  t.equal(freeSeat({ taken: [], unnumbered: 3, limit: 3 }, 0), null);
});

t.test('after the limit was lowered, seats above it still count', async (t) => {
  // Two of five seats are taken: 3 and 4. With limit 3, one place is left, so two concurrent draws must choose the same seat.
  const lowered = { taken: [3, 4], unnumbered: 0, limit: 3 };
  t.strictSame(
    [0, 0.5, 0.99].map((random) => freeSeat(lowered, random)),
    [0, 0, 0],
  );
  t.equal(freeSeat({ taken: [3, 4], unnumbered: 2, limit: 5 }, 0.9), 0);
});

t.test('drawing a seat is fast for a limit of billions', async (t) => {
  const seat = freeSeat({ taken: [5, 1], unnumbered: 0, limit: Number.MAX_SAFE_INTEGER }, 0.5);
  t.ok(Number.isSafeInteger(seat));
});

t.test('a link never exceeds its limit, however many students draw seats from stale reads', async () => {
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
        // Each student draws from an earlier state of the seats. The unique index refuses a taken seat.
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
