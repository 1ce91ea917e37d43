import fc from 'fast-check';
import t from 'tap';
import { processorTimes } from '#testing/processor-time.ts';
import { hidesText, oneLine, trimUnseen, withoutFormat } from './visible-text.ts';

/** Characters that hide text or reverse it, by their names. */
const HIDING = {
  'zero width space': '\u200b',
  'right-to-left override': '\u202e',
  'left-to-right mark': '\u200e',
  isolate: '\u2066',
  'word joiner': '\u2060',
  'byte order mark': '\ufeff',
  'soft hyphen': '\u00ad',
  'Arabic letter mark': '\u061c',
  'language tag': '\u{e0041}',
  'line separator': '\u2028',
  'paragraph separator': '\u2029',
  'line feed': '\n',
  tabulator: '\t',
  'next line': '\u0085',
  NUL: '\0',
};

t.test('a text of one visible line hides nothing, also with the joiners of other scripts', async (t) => {
  for (const text of [
    '',
    'Nguyễn Văn An',
    'Nguyễn Văn An'.normalize('NFD'),
    'می\u200cخواهم',
    'क\u094d\u200dष',
    '👩\u200d🏫',
  ])
    t.equal(hidesText(text), false, text);
  for (const [name, character] of Object.entries(HIDING)) t.equal(hidesText(`Quản trị${character} viên`), true, name);
});

t.test('a text without format characters keeps every other character', async (t) => {
  for (const [name, character] of Object.entries(HIDING)) {
    const kept = /\p{Cf}/u.test(character) ? '' : character;
    t.equal(withoutFormat(`y${character}gpj.exe`), `y${kept}gpj.exe`, name);
  }
  t.equal(withoutFormat('می\u200cخواهم'), 'می\u200cخواهم');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => withoutFormat(withoutFormat(text)) === withoutFormat(text)),
  );
});

t.test('what shows nothing is trimmed from both ends, and stays inside', async (t) => {
  for (const blank of [' ', '\u00a0', '\u3000', '\u200b', '\u200d', '\u3164', '\u115f', '\ufe0f', '\u2060\u180e']) {
    t.equal(trimUnseen(`${blank}An${blank}`), 'An', `U+${blank.codePointAt(0)?.toString(16)}`);
    t.equal(trimUnseen(`An${blank}B`), `An${blank}B`);
    t.equal(trimUnseen(blank), '');
  }
});

// Before: 200,000 spaces between two letters took three minutes.
t.test('a run of what shows nothing costs no more than letters', async (t) => {
  for (const unseen of [' ', '\u3164', '\u200d', '\n']) {
    const [hostile, usual] = [`a${unseen.repeat(50_000)}a`, 'a'.repeat(50_002)];
    for (const read of [trimUnseen, hidesText, withoutFormat, (text: string) => oneLine(text, 600)]) {
      const [attack = 0, measure = 0] = await processorTimes([() => read(hostile), () => read(usual)], 2);
      t.ok(attack < 5 * measure + 50, `${attack} ms; letters ${measure} ms`);
    }
  }
});
