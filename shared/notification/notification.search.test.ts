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
