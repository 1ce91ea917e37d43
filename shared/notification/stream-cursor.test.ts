import fc from 'fast-check';
import t from 'tap';
import {
  advance,
  decodeCursor,
  encodeCursor,
  markOf,
  OVERLAP_MS,
  pollFrom,
  type StreamCursor,
} from './stream-cursor.ts';

const NOW = Date.UTC(2026, 10, 21, 8);
const DAY = 86_400_000;
const START: StreamCursor = { polledAt: NOW, known: new Map() };
const row = (n: number, at: number) => ({ _id: `row-${n}`, createdAt: new Date(at) });

t.test(
  'a live inbox sends each row once, whatever the order of visibility, even after resuming from the last event id',
  async () => {
    // Each row: its creation time, and the delay until it is visible (less than the overlap).
    const rows = fc.array(fc.tuple(fc.nat(600_000), fc.nat(OVERLAP_MS - 1)), { maxLength: 60 });
    const polls = fc.array(fc.tuple(fc.integer({ min: 1, max: 180_000 }), fc.boolean()), {
      minLength: 1,
      maxLength: 12,
    });
    fc.assert(
      fc.property(rows, polls, (made, steps) => {
        const all = made.map(([at, delay], n) => ({ ...row(n, NOW + at), visibleAt: NOW + at + delay }));
        const told: string[] = [];
        let cursor = START;
        let at = NOW;
        const pollAt = (time: number) => {
          const found = all.filter((one) => one.visibleAt <= time && one.createdAt > pollFrom(cursor));
          const step = advance(cursor, found, time);
          told.push(...step.fresh.map(({ _id }) => _id));
          cursor = step.cursor;
        };
        for (const [later, reconnects] of [...steps, [900_000, false] as const]) {
          at += later;
          pollAt(at);
          if (reconnects) cursor = decodeCursor(encodeCursor(cursor), at, DAY) ?? START;
        }
        return new Set(told).size === told.length && told.length === all.length;
      }),
    );
  },
);

t.test('an encoded cursor fits a header and decodes to the same cursor', async (t) => {
  const known = new Map(Array.from({ length: 500 }, (_, n) => [markOf(`${n}`), NOW - n * 100]));
  const id = encodeCursor({ polledAt: NOW, known });
  t.ok(id.length < 4_096);
  t.match(id, /^[\w.-]+$/);
  const back = decodeCursor(id, NOW, DAY);
  t.equal(back?.polledAt, NOW);
  t.equal(back?.known.get(markOf('0')), NOW);
  t.equal(back?.known.get(markOf('199')), NOW - 19_900, 'the newest are kept');
  t.strictSame(decodeCursor(encodeCursor(START), NOW, DAY), START);
  // A snapshot may create a row with any `createdAt`.
  const ahead = new Map([
    [markOf('x'), NOW + 5],
    [markOf('y'), Date.parse('9999-12-31T23:59:59.999Z')],
  ]);
  t.strictSame(decodeCursor(encodeCursor({ polledAt: NOW, known: ahead }), NOW, DAY), { polledAt: NOW, known: ahead });
});

t.test('decoding rejects a cursor that is malformed, too old or from the future', async (t) => {
  const at = (ms: number) => encodeCursor({ polledAt: ms, known: new Map() });
  t.equal(decodeCursor(at(NOW - DAY - 1), NOW, DAY), null);
  t.equal(decodeCursor(at(NOW + OVERLAP_MS + 1), NOW, DAY), null);
  for (const text of [
    '',
    'x y',
    '42',
    `${at(NOW)}.short`,
    `${at(NOW)}.`,
    `${at(NOW)}, ${at(NOW)}`,
    'a'.repeat(5_000),
  ]) {
    t.equal(decodeCursor(text, NOW, DAY), null, text.slice(0, 20));
  }
});
