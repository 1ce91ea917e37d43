import fc from 'fast-check';
import t from 'tap';
import { literalPattern } from './notification.ts';

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
