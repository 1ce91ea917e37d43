import fc from 'fast-check';
import t from 'tap';
import { lineView, pageOf, readCursor, verdictText } from './page.ts';
import { type Effect, reason } from './reasons.ts';
import { folded, LINE_KINDS, MAX_VERDICTS, summaryOf, type TraceLine, timelineOf, traceLine } from './timeline.ts';

const line = (at: number, change: Partial<TraceLine> = {}): TraceLine =>
  traceLine({ kind: 'command', id: `c-${at}`, state: 'PENDING', ...change, at: new Date(at) });

t.test('lines are in time order, causes before effects, each once', async (t) => {
  const attempt = line(5, { kind: 'attempt', id: 'a' });
  const notice = line(5, { kind: 'notice', id: 'n' });
  const made = timelineOf([line(9), notice, attempt, line(9), line(1)]);
  t.strictSame(
    made.map(({ id }) => id),
    ['c-1', 'a', 'n', 'c-9'],
  );
});

t.test('neighbouring events of one type are one line, and others are not', async (t) => {
  const event = (at: number, what: string) => line(at, { kind: 'event', id: `e-${at}`, what, about: 'a' });
  const made = folded([event(1, 'SAVE_ANSWER'), event(2, 'SAVE_ANSWER'), event(3, 'TAB_HIDDEN'), line(4), line(5)]);
  t.match(made, [
    { what: 'SAVE_ANSWER', count: 2, endedAt: new Date(2) },
    { what: 'TAB_HIDDEN', count: 1 },
    { id: 'c-4' },
    { id: 'c-5' },
  ]);
});

t.test('a summary begins with what needs an operator, and counts equal statements', async (t) => {
  const because = (at: number, code: Parameters<typeof reason>[0], effect: Effect) =>
    line(at, { effect, reason: reason(code, code.toLowerCase(), 'act') });
  const lines = [
    because(1, 'MUTED', 'not notified'),
    because(2, 'RUNNING', 'not graded'),
    because(3, 'BACKS_OFF', 'event not published'),
    because(4, 'NO_WORKER', 'not graded'),
    because(5, 'NO_WORKER', 'not graded'),
    because(6, 'DEAD', 'event not published'),
  ];
  const { verdicts, moreVerdicts } = summaryOf(lines);
  t.equal(verdicts.length, MAX_VERDICTS);
  t.equal(moreVerdicts, 1, 'the fifth is counted');
  t.match(verdicts, [
    { code: 'NO_WORKER', count: 2, id: 'c-4', standing: 'stuck' },
    { code: 'DEAD', count: 1 },
    { code: 'BACKS_OFF' },
    { code: 'RUNNING' },
  ]);
  t.equal(verdicts.map(verdictText)[0], 'not graded: no_worker (and 1 more); act');
  t.strictSame(
    summaryOf([line(1, { reason: reason('DEAD', 'x') })]).verdicts,
    [],
    'a line without an effect is no statement',
  );
});

t.test('a walk over pages shows each line once, while lines are added', async () => {
  const lines = fc.array(fc.tuple(fc.nat(20), fc.constantFrom(...LINE_KINDS)), { maxLength: 40 });
  fc.assert(
    fc.property(lines, lines, fc.integer({ min: 1, max: 7 }), (first, added, limit) => {
      const all = timelineOf(first.map(([at, kind], n) => line(at, { kind, id: `${n}` })));
      const more = timelineOf([...all, ...added.map(([at, kind], n) => line(at, { kind, id: `new-${n}` }))]);
      const seen: string[] = [];
      let { lines: page, nextCursor } = pageOf(all, { after: null, limit });
      for (;;) {
        seen.push(...page.map(({ id }) => id));
        if (nextCursor === null) break;
        ({ lines: page, nextCursor } = pageOf(more, { after: readCursor(nextCursor), limit }));
      }
      const old = seen.filter((id) => !id.startsWith('new-'));
      return new Set(seen).size === seen.length && all.length === old.length;
    }),
  );
});

t.test('a cursor that no reply contained is refused', async (t) => {
  for (const text of ['', 'x', '[]', '[1,"a"]', '["1","a","b"]', '[1,"a","b",1]', 'null', '{}'])
    t.equal(readCursor(Buffer.from(text).toString('base64url')), null, text);
  t.strictSame(readCursor(Buffer.from('[1,"a","b"]').toString('base64url')), { at: 1, kind: 'a', id: 'b' });
});

t.test('a line of a reply has texts for times and no effect', async (t) => {
  t.strictSame(lineView(line(0, { effect: 'not graded' })), {
    at: '1970-01-01T00:00:00.000Z',
    kind: 'command',
    id: 'c-0',
    state: 'PENDING',
    what: null,
    about: null,
    attempt: null,
    requestId: null,
    reason: null,
    count: 1,
    nextAt: null,
    endedAt: null,
  });
});
