import fc from 'fast-check';
import t from 'tap';
import { foldText, isBlank, trimWhiteSpace } from './short-answer.ts';

const equal = (one: string, other: string) => foldText(one, false) === foldText(other, false);

t.test('texts that differ only in case, normal form or white space fold to the same form', async (t) => {
  const pairs: [string, string][] = [
    ['Hà Nội', '  hà\t\u00a0NỘI '],
    ['Việt', 'Vie\u0323\u0302t'],
    ['ĐƯỜNG', 'đường'],
    ['Straße', 'STRASSE'],
    ['STRAẞE', 'strasse'],
    ['ΟΔΥΣΣΕΥΣ', 'οδυσσευς'],
    ['σ', 'ς'],
    ['İ', 'i\u0307'],
    ['K', '\u212a'],
    ['ﬁn', 'FIN'],
    ['\u0390', '\u03aa\u0301'],
    ['ſ', 'S'],
    ['Ꭰ', 'ꭰ'],
    ['a\u3000b', 'A\u2003\u0085B'],
  ];
  for (const [one, other] of pairs) t.ok(equal(one, other), `${one} = ${other}`);
});

t.test('texts that are different answers fold to different forms', async (t) => {
  const pairs: [string, string][] = [
    ['Hà Nội', 'Ha Noi'],
    ['ma', 'má'],
    ['ı', 'i'],
    ['ab', 'a b'],
    ['x\u200by', 'xy'],
    ['²', '2'],
  ];
  for (const [one, other] of pairs) t.notOk(equal(one, other), `${one} ≠ ${other}`);
});

t.test('case-sensitive folding keeps case', async (t) => {
  t.not(foldText('NaCl', true), foldText('NACL', true));
  t.equal(foldText('  Na  Cl ', true), 'Na Cl');
});

t.test('folding a text is idempotent and ignores case and normal form', async () => {
  const letters = fc.string({ unit: 'grapheme', maxLength: 40 });
  fc.assert(
    fc.property(letters, fc.boolean(), (text, caseSensitive) => {
      const once = foldText(text, caseSensitive);
      return foldText(once, caseSensitive) === once && foldText(text.normalize('NFD'), caseSensitive) === once;
    }),
  );
  const vietnamese = fc.string({ unit: fc.constantFrom(...'aăâđêôơưàảãáạằẳẵắặbcdeghiklmnopqrstuvxyỳỷỹýỵ ') });
  fc.assert(fc.property(vietnamese, (text) => equal(text, text.toUpperCase())));
});

t.test('a text is blank only if it consists of Unicode white space', async (t) => {
  t.ok(isBlank(''));
  t.ok(isBlank(' \t\r\n\u00a0\u0085\u2028\u3000'));
  t.notOk(isBlank('\u200b'), 'a zero width space is no white space');
  t.notOk(isBlank('0'));
  t.equal(trimWhiteSpace('\u3000 a b\u0085'), 'a b');
});

t.test('folding a long inner run of spaces takes linear time', async (t) => {
  const text = `a${' '.repeat(100_000)}b`;
  const before = process.cpuUsage();
  t.equal(foldText(text, false), 'a b');
  t.equal(trimWhiteSpace(text), text);
  const { user } = process.cpuUsage(before);
  t.ok(user < 1_000_000, 'far below the seconds of a rescan per space');
});

t.test(
  'no character folds to less than an eighth of its length, and NFC changes no other one to white space',
  async (t) => {
    const pointsOf = (text: string) => [...text.normalize('NFD')].length;
    const odd: string[] = [];
    for (let point = 0; point < 0x3_0000; point += 1) {
      const letter = String.fromCodePoint(point);
      const composed = letter.normalize('NFC');
      const isShorter = !isBlank(letter) && pointsOf(foldText(letter, false)) < pointsOf(letter);
      if (pointsOf(letter) > 4 || isShorter || isBlank(letter) !== isBlank(composed)) odd.push(point.toString(16));
    }
    t.strictSame(odd, []);
  },
);
