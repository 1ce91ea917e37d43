import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { concernsErased, personsIn, withoutErased, withoutErasedActor } from './fan-out.ts';
import { literalPattern } from './notification.ts';
import { newFromSnapshot, readSnapshot } from './snapshot.ts';
import {
  advance,
  decodeCursor,
  encodeCursor,
  markOf,
  OVERLAP_MS,
  pollFrom,
  type StreamCursor,
} from './stream-cursor.ts';

// This test replaces PCRE by JavaScript's engine: both engines treat the escaped characters alike.
const finds = (q: string, text: string) => new RegExp(literalPattern(q), 'i').test(text);

t.test('the search pattern matches its text literally', async (t) => {
  const marks = '^\\d[a-z](b)|{2}*+?.$-/# ';
  t.ok(finds(marks, `x${marks}y`));
  for (const mark of marks) {
    t.ok(finds(mark, `a${mark}b`), mark);
    if (!/[a-z0-9]/i.test(mark)) t.notOk(finds(`<${mark}>`, '<>'), `${mark} is no operator`);
  }
  t.notOk(finds('.*', 'anything'));
  t.notOk(finds('a|b', 'a'));
  t.notOk(finds('\\d', '7'));
  t.ok(finds('a\0b', 'xa\0by'));
  t.notMatch(literalPattern('a\0b'), /\0/, 'a pattern travels as a text that NUL ends');
});

t.test('the search pattern matches composed and decomposed accents', async (t) => {
  const text = 'Trường Đường Ếch';
  for (const form of ['NFC', 'NFD'] as const) {
    for (const stored of ['NFC', 'NFD'] as const) {
      t.ok(finds('ĐƯỜNG ếch'.normalize(form), text.normalize(stored)), `${form} in ${stored}`);
    }
  }
  t.notOk(finds('duong', text), 'accents count');
});

const LETTERS = [...'aăâeêioôơuưyđ', ...'bcdghklmnpqrstvx '];
const TONES = ['', '\u0300', '\u0301', '\u0303', '\u0309', '\u0323'];
/** A letter and its tone as one of the four ways in which keyboards and documents write them. */
const written = (letter: string, tone: string, form: number): string => {
  const [base = '', shape = ''] = letter.normalize('NFD');
  const forms = [(letter + tone).normalize('NFC'), (letter + tone).normalize('NFD'), letter + tone];
  return forms[form] ?? (base + tone).normalize('NFC') + shape;
};
const letters = fc.array(fc.tuple(fc.constantFrom(...LETTERS), fc.constantFrom(...TONES)), {
  minLength: 1,
  maxLength: 12,
});
const forms = fc.infiniteStream(fc.nat({ max: 3 }));

t.test('a search finds a Vietnamese text in any form, and no text with another tone or letter', async (t) => {
  fc.assert(
    fc.property(letters, letters, forms, forms, fc.nat(), (word, around, form, otherForm, at) => {
      const write = (some: typeof word, next: typeof form) =>
        some.map(([letter, tone]) => written(letter, tone, next.next().value)).join('');
      const text = [...around, ...word, ...around];
      const plain = (some: typeof word) => some.map(([letter, tone]) => `${letter}${tone}|`.normalize('NFC')).join('');
      const stored = write(text, otherForm);
      const changed = word.map(([letter, tone], index): [string, string] =>
        index === at % word.length ? [letter, TONES[(TONES.indexOf(tone) + 1) % TONES.length] ?? ''] : [letter, tone],
      );
      return (
        finds(write(word, form), stored) &&
        finds(write(word, form).toUpperCase(), stored) &&
        finds(write(changed, form), stored) === plain(text).includes(plain(changed))
      );
    }),
    { numRuns: 2_000 },
  );
  t.ok(finds('toa\u0323\u0302p', 'to\u00e2\u0323p'));
});

t.test('a search finds every text by itself and in both forms', async () => {
  const graphemes = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(graphemes, (text) => {
      const all = [text, text.normalize('NFC'), text.normalize('NFD')];
      return (
        all.every((q) => finds(q, `x${q}`)) &&
        finds(text.normalize('NFC'), text.normalize('NFD')) &&
        finds(text.normalize('NFD'), text.normalize('NFC'))
      );
    }),
  );
});

t.test('the pattern of the longest query is small, and matches it in both forms', async (t) => {
  for (const letter of ['ậ', 'a\u0302\u0323\u0301', '*', '\0', '\u{1f418}', 'Trường Đường Ếch ']) {
    const q = letter.repeat(100 / letter.length);
    const pattern = literalPattern(q);
    t.ok(Buffer.byteLength(pattern) <= 1_000, `${letter}: ${Buffer.byteLength(pattern)} bytes`);
    for (const form of ['NFC', 'NFD']) t.ok(finds(q, q.normalize(form)), `${letter} in ${form}`);
  }
});

const SNAPSHOT = {
  userId: 'u',
  type: 'SUPPORT_TICKET_REPLY',
  title: 'T',
  content: '',
  isRead: true,
  createdAt: '2026-09-01T08:00:00+07:00',
};
const receivedAt = new Date('2026-11-21T00:00:00.000Z');
const rowOf = (change: object) =>
  newFromSnapshot(readSnapshot('n', { ...SNAPSHOT, ...change }), { now: receivedAt, organizationId: 'o' });

t.test('the first snapshot of an id creates a complete row', async (t) => {
  t.strictSame(rowOf({}), {
    _id: 'n',
    userId: 'u',
    organizationId: 'o',
    type: 'SUPPORT_TICKET_REPLY',
    title: 'T',
    content: '',
    preferenceType: null,
    actorId: null,
    entity: null,
    entityId: null,
    data: null,
    sourceEventRef: null,
    place: 'INBOX',
    isRead: true,
    readAt: receivedAt,
    isSupport: true,
    fanOutId: null,
    ordinal: 0,
    createdAt: new Date('2026-09-01T01:00:00.000Z'),
    deletedAt: null,
  });
});

t.test('the values of a snapshot take precedence over defaults', async (t) => {
  const readAt = '2026-09-02T00:00:00.000Z';
  t.match(rowOf({ readAt, organizationId: 'p' }), { readAt: new Date(readAt), organizationId: 'p' });
  t.match(rowOf({ isRead: false, readAt }), { isRead: false, readAt: null }, 'an unread one was read at no time');
  t.match(rowOf({ isRead: undefined }), { isRead: false, readAt: null });
  t.match(
    rowOf({ isRead: undefined, readAt }),
    { isRead: true, readAt: new Date(readAt) },
    'a time alone tells that it is read',
  );
  t.match(rowOf({ createdAt: undefined }), { createdAt: receivedAt });
  const links = { preferenceType: 'P', actorId: 'a', entity: 'E', entityId: 'e', sourceEventRef: 's:1' };
  t.match(rowOf({ ...links, data: { a: 1 } }), { ...links, data: '{"a":1}' });
  t.match(rowOf({ deletedAt: readAt }), { place: 'DELETED', deletedAt: new Date(readAt) });
});

const NOW = Date.UTC(2026, 10, 21, 8);
const START: StreamCursor = { polledAt: NOW, known: new Map() };
const rowAt = (n: number, at: number) => ({ _id: `row-${n}`, createdAt: new Date(at) });

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
        const all = made.map(([at, delay], n) => ({ ...rowAt(n, NOW + at), visibleAt: NOW + at + delay }));
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

const erased = new Set(['gone']);
const row = { userId: 'here', type: 'T', title: 'x', content: 'x' };

t.test('a notification to an erased person or about one is recognised, and an erased actor is left out', (t) => {
  t.equal(concernsErased({ ...row, userId: 'gone' }, erased), true);
  t.equal(concernsErased({ ...row, entityId: 'gone' }, erased), true);
  t.equal(concernsErased({ ...row, actorId: 'gone', entityId: null }, erased), false);
  t.strictSame(withoutErasedActor({ ...row, actorId: 'gone' }, erased), { ...row, actorId: null });
  t.strictSame(withoutErasedActor({ ...row, actorId: 'here' }, erased), { ...row, actorId: 'here' });
  t.end();
});

t.test('an event about an erased person keeps its replay key alone', (t) => {
  const key = { sourceService: 's', sourceEventId: 'e', type: 'T' };
  const about = { ...key, entityId: 'gone', targetUserIds: ['parent'], payload: { name: 'An' } };
  t.strictSame(withoutErased(about, erased), { ...key, entityId: null, targetUserIds: null, payload: null });
  const among = { ...key, entityId: 'exam', actorId: 'gone', targetUserIds: ['gone', 'here'], payload: { n: 1 } };
  t.strictSame(withoutErased(among, erased), { ...among, actorId: null, targetUserIds: ['here'] });
  t.strictSame(withoutErased(key, erased), key, 'absent fields stay absent');
  t.end();
});

t.test('every id of a request that may be a person is collected once', (t) => {
  const notifications = [row, { ...row, actorId: 'a', entityId: 'e' }];
  const event = { entityId: 'e', actorId: null, targetUserIds: ['here', 't'] };
  t.strictSame(personsIn(notifications, event).sort(), ['a', 'e', 'here', 't']);
  t.strictSame(personsIn([row], null), ['here']);
  t.end();
});
