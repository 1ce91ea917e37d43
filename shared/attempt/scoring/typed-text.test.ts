import fc from 'fast-check';
import t from 'tap';
import { isBlank } from '#shared/kernel/text.ts';
import { processorTimes } from '#testing/processor-time.ts';
import { foldText, isBlankEssay, trimWhiteSpace } from './typed-text.ts';

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
    ['xy', 'x\u200by'],
    ['Hà Nội', '\ufeffHà\u2060 \u00adNội\u200d'],
    ["rock'n'roll", 'Rock\u2019n\u2018roll'],
    ['5\' 3"', '5\u2032 3\u2033'],
    ['"a"', '\u201ea\u201f'],
    ['x-1', 'x\u22121'],
    ['a-b-c-d', 'a\u2010b\u2015c\uff0dd'],
    ['a...', 'a\u2026'],
    ['σ\u201bb', "σ'b"],
    ['hòa bình', 'Hoà Bình'],
    ['HÒE', 'hoè'],
    ['thúy', 'thuý'],
    ['qúy', 'quý'],
    ['ủy', 'uỷ'],
    ['hoạ!', 'họa!'],
  ];
  for (const [one, other] of pairs) t.ok(equal(one, other), `${one} = ${other}`);
});

t.test('texts that are different answers fold to different forms', async (t) => {
  const pairs: [string, string][] = [
    ['Hà Nội', 'Ha Noi'],
    ['ma', 'má'],
    ['ı', 'i'],
    ['ab', 'a b'],
    ['²', '2'],
    ['hòa', 'hóa'],
    ['hòa', 'hoa'],
    ['thúy', 'thủy'],
    ["'", '"'],
    ["''", '"'],
  ];
  for (const [one, other] of pairs) t.notOk(equal(one, other), `${one} ≠ ${other}`);
});

t.test('case-sensitive folding keeps case', async (t) => {
  t.not(foldText('NaCl', true), foldText('NACL', true));
  t.equal(foldText('  Na  Cl ', true), 'Na Cl');
  t.equal(foldText('HÒA', true), foldText('HOÀ', true));
  t.not(foldText('HÒA', true), foldText('Hòa', true));
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

t.test('a text is blank if it consists of white space and of characters that show nothing', async (t) => {
  t.ok(isBlank(''));
  t.ok(isBlank(' \t\r\n\u00a0\u0085\u2028\u3000'));
  for (const unseen of ['\u200b', '\ufeff', '\u2060 \u00ad', '\u202d\u202c', '\u3164', '\u{e0041}'])
    t.ok(isBlank(unseen));
  t.notOk(isBlank('0'));
  t.notOk(isBlank('<p></p>'), 'a tag is text in a short answer');
  t.equal(trimWhiteSpace('\u3000 a b\u0085'), 'a b');
});

t.test('an essay is blank if nothing but its tags is left', async (t) => {
  const blank = [
    '',
    '<p><br></p>',
    '<P CLASS="a b">&nbsp;\u200b</P>',
    '<!-- x --><div><b></b>&#160;&#xA0;</div>',
    '<ul>\n<li/></ul>',
  ];
  for (const html of blank) t.ok(isBlankEssay(html), html);
  const shown = [
    'x',
    '<p>.</p>',
    '<',
    '<>',
    '<3',
    'a < b',
    '1<2>1',
    '<p',
    '&lt;p&gt;',
    '&amp;nbsp;',
    '<math-field value="x"></math-field>',
  ];
  for (const html of shown) t.notOk(isBlankEssay(html), html);
  for (const name of 'img video audio canvas svg math object iframe hr input'.split(' ')) {
    for (const html of [`<p><${name}></p>`, `<${name.toUpperCase()} a="b"/>`, `<${name}\n></${name}>`])
      t.notOk(isBlankEssay(html), html);
  }
});

t.test('what an essay shows does not depend on its tags', async () => {
  const tag = fc.constantFrom(
    '<p>',
    '</p>',
    '<br/>',
    '<br>',
    '<span style="color:red">',
    '</span>',
    '<o:p>',
    '&nbsp;',
    ' ',
    '\u200b',
  );
  const letter = fc.constantFrom('x', 'ế', '0', '<', '&', '>');
  fc.assert(fc.property(fc.array(tag), (tags) => isBlankEssay(tags.join(''))));
  fc.assert(
    fc.property(
      fc.array(tag),
      fc.array(tag),
      letter,
      (before, after, text) => !isBlankEssay(before.join('') + text + after.join('')),
    ),
  );
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

const TONES = ['', '\u0300', '\u0301', '\u0303', '\u0309', '\u0323'];
const ONSETS = 'b c ch d đ g gh gi h k kh l m n ng ngh nh p ph q qu r s t th tr v x'.split(' ');
/** Vowels and final consonants. The number is the place of the tone; before 0 both places are taught. */
const RIMES: readonly [string, number][] = [
  ...'a ă â e ê i o ô ơ u ư y'.split(' ').map((vowel): [string, number] => [vowel, 0]),
  ...'an ăm âng et êch in ong ôp ơn uc ưt ai ao au âu ay eo êu oi ôi ơi ui ưu ia ua ưa'
    .split(' ')
    .map((rime): [string, number] => [rime, 0]),
  ...'oan oat oai oay oet uyt uynh uât uê uơ iên uôn ươn ươi iêu yên'
    .split(' ')
    .map((rime): [string, number] => [rime, 1]),
  ['uyên', 2],
  ['uya', 1],
  ['oa', -1],
  ['oe', -1],
  ['uy', -1],
];

/** The four ways in which keyboards and documents write a letter with a tone. */
const FORMS: readonly ((letter: string, tone: string) => string)[] = [
  (letter, tone) => (letter + tone).normalize('NFC'),
  (letter, tone) => (letter + tone).normalize('NFD'),
  (letter, tone) => letter + tone,
  (letter, tone) => {
    const [base = '', shape = ''] = letter.normalize('NFD');
    return (base + tone).normalize('NFC') + shape;
  },
];

interface Syllable {
  onset: string;
  rime: [string, number];
  tone: string;
}

const syllable: fc.Arbitrary<Syllable> = fc.record({
  onset: fc.constantFrom('', ...ONSETS),
  rime: fc.constantFrom(...RIMES),
  tone: fc.constantFrom(...TONES),
});
/** Form of each letter, the place of a tone that has two, and the case. */
const writing = fc.record({ form: fc.nat({ max: 3 }), place: fc.nat({ max: 1 }), isUpper: fc.boolean() });

function spelled(
  { onset, rime: [letters, at], tone }: Syllable,
  { form, place, isUpper }: { form: number; place: number; isUpper: boolean },
): string {
  const toned = at < 0 ? place : at;
  const rime = [...letters].map((letter, index) => FORMS[form]?.(letter, index === toned ? tone : '')).join('');
  const text = onset + rime;
  return isUpper ? text.toUpperCase() : text;
}

const wordOf = (syllables: readonly Syllable[]) =>
  syllables.map(({ onset, rime: [letters], tone }) => `${onset}${letters}${tone}`).join(' ');

t.test('a Vietnamese text equals itself in each form, case and place of its tones', async () => {
  const text = fc.array(fc.tuple(syllable, writing, writing), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(text, fc.boolean(), (words, caseSensitive) => {
      const [one, other] = [1, 2].map((at) =>
        words
          .map(([word, ...ways]) =>
            spelled(word, { ...(ways[at - 1] ?? ways[0]), ...(caseSensitive && { isUpper: false }) }),
          )
          .join(' '),
      );
      return foldText(one ?? '', caseSensitive) === foldText(other ?? '', caseSensitive);
    }),
    { numRuns: 2_000 },
  );
});

t.test('two Vietnamese words with other letters or another tone never equal', async () => {
  fc.assert(
    fc.property(syllable, writing, syllable, writing, fc.constantFrom(...TONES), (one, way, other, otherWay, tone) => {
      const differ = (a: Syllable, b: Syllable) =>
        wordOf([a]) === wordOf([b]) || !equal(spelled(a, way), spelled(b, otherWay));
      return differ(one, other) && differ(one, { ...one, tone }) && differ(one, { ...other, tone: one.tone });
    }),
    { numRuns: 2_000 },
  );
});

t.test('folding moves no tone of a syllable that has one place for it', async (t) => {
  for (const word of 'hoàn toán hoài xoáy khuỷu huỳnh quỹ của thuở hoà quý ngoẻo'.split(' '))
    t.equal(foldText(word, false), word);
  t.notOk(equal('hoàn', 'hòan'));
});

/** Texts that grow with `n`, each of them hostile to one step of the folding. */
const GROWING: readonly ((n: number) => string)[] = [
  (n) => 'Hòa\u0301 '.repeat(n / 5),
  (n) => 'o\u0301'.repeat(n / 2),
  (n) => `a${'\u0301\u200b'.repeat(n / 2)}`,
  (n) => `${' \u200b'.repeat(n / 2)}x`,
  (n) => '\u2026\u2019'.repeat(n / 2),
  (n) => '<a'.repeat(n / 2),
  (n) => `<${'a'.repeat(n)}`,
  (n) => '<p>'.repeat(n / 3),
  (n) => '<b '.repeat(n / 3),
  (n) => '&nbsp'.repeat(n / 5),
];

t.test('eight times the text takes about eight times as long to fold, not 64', async (t) => {
  for (const grown of GROWING) {
    const works = [grown(10_000), grown(80_000)].map((text) => () => [
      foldText(text, false),
      isBlank(text),
      isBlankEssay(text),
    ]);
    const [less = 0, more = 0] = await processorTimes(works);
    t.ok(more < 20 * less + 5, `${less} ms and ${more} ms: ${JSON.stringify(grown(60))}`);
  }
});
