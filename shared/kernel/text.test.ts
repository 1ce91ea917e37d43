import fc from 'fast-check';
import t from 'tap';
import { processorTimes } from '#testing/processor-time.ts';
import { JsonPart, jsonText } from './json.ts';
import { type ParsedJson, parseLarge } from './large-json.ts';
import { parseJson, parseJsonText } from './parse-json.ts';
import { atOnce } from './pieces.ts';
import { composed, decomposed, hasMarkRun, hidesText, oneLine, trimUnseen, withoutFormat } from './text.ts';

const seed = Date.now() & 0x7fffffff;
const ABOVE = '\u0301';
const BELOW = '\u0323';
/** Marks of several combining classes, of two units, without a class, and one that decomposes into two. */
const MARKS = [ABOVE, BELOW, '\u0345', '\u3099', '\u{1d165}', '\u{1e8d0}', '\u034f', '\u0344', '\u{e0100}'];
const LETTERS = ['a', 'ễ', 'ẖ', '각', '\u1112', '\u{1d15e}', '\u{1f418}', ' ', '\ud800', '\udc00'];

/** Letters and marks, each with the number of its repetitions. */
const parts = fc.array(fc.tuple(fc.constantFrom(...MARKS, ...LETTERS), fc.constantFrom(1, 1, 2, 15, 29, 30, 31, 40)), {
  maxLength: 12,
});
const written = (some: readonly (readonly [string, number])[]) =>
  some.map(([letter, count]) => letter.repeat(count)).join('');

t.test(`a run is more than 30 marks in a row, and a text with one stays as it is (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(parts.map(written), (text) => {
      const hasRun = /\p{M}{31}/u.test(text);
      return (
        hasMarkRun(text) === hasRun &&
        composed(text) === (hasRun ? text : text.normalize('NFC')) &&
        decomposed(text) === (hasRun ? text : text.normalize('NFD'))
      );
    }),
    { seed, numRuns: 5_000 },
  );
  t.notOk(hasMarkRun(`a${ABOVE.repeat(30)}a${ABOVE.repeat(30)}`));
  t.ok(hasMarkRun(`a${ABOVE.repeat(30)}${BELOW}`));
});

t.test(
  'every character that normalization reorders is a mark, and each decomposes into three marks at most',
  async (t) => {
    const odd: string[] = [];
    // The planes after these two have ideographs only.
    for (let point = 0; point < 0x2_0000; point += 1) {
      const letter = String.fromCodePoint(point);
      const apart = letter.normalize('NFD');
      const isReordered = [ABOVE, BELOW].some((mark) => `a${mark}${letter}`.normalize('NFD') !== `a${mark}${apart}`);
      const marks = apart.match(/\p{M}/gu)?.length ?? 0;
      if ((isReordered && !/\p{M}/u.test(letter)) || marks > 3) odd.push(point.toString(16));
    }
    t.strictSame(odd, []);
  },
);

/** Texts that grow with `n`: longer runs, and more of them. */
const GROWING: readonly ((n: number) => string)[] = [
  (n) => `a${ABOVE.repeat(n)}${BELOW.repeat(n)}`,
  (n) => '\u1161'.repeat(n),
  (n) => '\u{1f418}'.repeat(n),
  ...['a', 'ễ', '각'].map((letter) => (n: number) => `${letter}${ABOVE.repeat(15)}${BELOW.repeat(15)}`.repeat(n / 30)),
  ...['\u0344', '\u034f', '\u{1d165}'].map(
    (mark) => (n: number) => `a${mark.repeat(15)}${BELOW.repeat(15)}`.repeat(n / 30),
  ),
];

t.test(`eight times the text takes about eight times as long to normalize, not 64 (seed ${seed})`, async (t) => {
  const random = fc
    .sample(parts, { seed, numRuns: 20 })
    .flatMap((some) => [
      (n: number) => written(some.map(([letter, count]) => [letter, Math.ceil((count * n) / 100)])),
      (n: number) => written(some).repeat(n / 100),
    ]);
  for (const grown of [...GROWING, ...random]) {
    const works = [grown(3_000), grown(24_000)].map((text) => () => [composed(text), decomposed(text)]);
    const [less = 0, more = 0] = await processorTimes(works);
    t.ok(more < 20 * less + 5, `${less} ms and ${more} ms: ${JSON.stringify(grown(100).slice(0, 60))}`);
  }
});

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

/** Parts of JSON in any order, most of which are not JSON together. */
const TOKENS = ['{', '}', '[', ']', ',', ':', ' ', '\n', '1', 'null', '"a"', '"é"', '"\\""', '"__proto__"', '"', 'x'];
/** No letter that JSON escapes: V8 misreads some names with escapes, and it is the measure here. */
const stringUnit = fc.constantFrom(...'ab{}[],:1 é😀');
const repeated = fc
  .array(fc.tuple(fc.constantFrom('a', 'b', 'ab', '__proto__'), fc.json({ maxDepth: 2, stringUnit })), {
    minLength: 1,
    maxLength: 6,
  })
  .map((members) => `{${members.map(([name, value]) => `"${name}":${value}`).join()}}`);
const shuffled = fc
  .array(fc.constantFrom(...TOKENS, '"a":1', '{"b":[1,2]}', '{}'), { maxLength: 16 })
  .map((parts) => parts.join(''));
const writtenJson = fc
  .tuple(fc.jsonValue({ maxDepth: 5, stringUnit }), fc.constantFrom(0, 1))
  .map(([value, indent]) => JSON.stringify(value, null, indent));
/** JSON of which one character is missing or replaced. */
const damaged = fc
  .tuple(writtenJson, fc.nat(), fc.constantFrom('', ...TOKENS))
  .map(([text, at, mark]) => text.slice(0, at % text.length) + mark + text.slice((at % text.length) + 1));

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, child) => sum + membersOf(child), own);
}

function parsedAtOnce(text: string): ParsedJson {
  const value: unknown = JSON.parse(text);
  return { value, members: membersOf(value) };
}

/** Returns the value of a text, and whether it has fewer members than the text, because an object has a name twice. */
function outcome(text: string, parse: (text: string) => ParsedJson): string {
  const sent = text.replaceAll(/"(?:\\.|[^"\\])*"/g, '').split(':').length - 1;
  try {
    const { value, members } = parse(text);
    return `${members < sent ? 'a name twice in ' : ''}${JSON.stringify(value)}`;
  } catch (error) {
    if (error instanceof SyntaxError) return 'not JSON';
    throw error;
  }
}

t.test(`a text in pieces has the value of JSON.parse, and shows names sent twice (seed ${seed})`, async (t) => {
  const text = fc.oneof(shuffled, writtenJson, repeated, damaged).map((sent) => Buffer.from(sent).toString());
  fc.assert(
    fc.property(text, fc.boolean(), fc.integer({ min: 1, max: 30 }), (sent, escapedNames, pieceBytes) => {
      const writing = { encoding: 'utf8', escapedNames } as const;
      const inPieces = (of: string) => atOnce(parseLarge(Buffer.from(of), writing, pieceBytes));
      return outcome(sent, inPieces) === outcome(sent, parsedAtOnce);
    }),
    { seed, numRuns: 10_000 },
  );
  t.pass();
});

t.test('a name with escapes is read as it is, whatever was parsed before', async (t) => {
  const victims = ['"\\u0111i\\u1ec3m":1', '"\\n":{}', '"\\"":[{"\\u0062":1}]', '"\\/x\\u0111":2,"\\u0062":false'];
  const readings = [{ điểm: 1 }, { '\n': {} }, { '"': [{ b: 1 }] }, { '/xđ': 2, b: false }];
  for (const poison of ['"\\\\":1', '"\\\\u01":1', '"\\\\/":1', '"\\\\u0":1', '"a":1,"\\\\":{}', '"a":1,"\\\\u01":1']) {
    for (const [at, victim] of victims.entries()) {
      for (const before of ['', '"a":1,', '"a":{},"b":1,']) {
        for (let time = 0; time < 3; time += 1) JSON.parse(`{${before}${poison}}`);
        const text = Buffer.from(`{${before}${victim}}`);
        const parsed = atOnce(parseJson(text, { encoding: 'latin1', escapedNames: true }));
        const expected = {
          ...(before === '' ? {} : before.includes('b') ? { a: {}, b: 1 } : { a: 1 }),
          ...readings[at],
        };
        t.strictSame(parsed.value, expected, `${text}`);
        t.strictSame(parseJsonText(`${text}`), expected);
      }
    }
  }
});

t.test('a text is parsed in so many pieces that each is short, whatever it holds', async (t) => {
  const many = (count: number, item: (n: number) => string) => Array.from({ length: count }, (_, n) => item(n)).join();
  const texts = {
    'a long list': `[${many(300_000, String)}]`,
    'a large object': `{"a":{${many(100_000, (n) => `"${n}":0`)}}}`,
    'large items': `[${many(40, () => `{"text":"${'x'.repeat(70_000)}"}`)}]`,
    'a long text': `["${'x'.repeat(200_000)}",${many(200_000, () => '[]')}]`,
  };
  for (const [name, text] of Object.entries(texts)) {
    const bytes = Buffer.from(text);
    for (const escapedNames of [false, true]) {
      let pieces = 0;
      for (const _ of parseLarge(bytes, { encoding: 'latin1', escapedNames })) pieces += 1;
      t.ok(pieces >= bytes.length / 2 ** 18, `${name}: ${pieces} pieces of ${bytes.length} bytes`);
    }
  }
});

/** Values of a reply, with members and items that JSON has no text for. */
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.jsonValue({ maxDepth: 1 }),
    fc.constant(undefined),
    fc.date(),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('value'), { maxLength: 40 }),
  object: fc.dictionary(fc.string(), tie('value')),
})).value;

t.test(`a value in pieces has the text of JSON.stringify (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(values, (value) => atOnce(jsonText(value)) === JSON.stringify(value)),
    { seed, numRuns: 2_000 },
  );
  const large = { list: Array.from({ length: 5_000 }, (_, n) => ({ n })), none: undefined };
  const wide = Object.fromEntries(large.list.map(({ n }) => [`m${n}`, n % 3 === 0 ? undefined : n]));
  for (const value of [large, wide, { data: { large, wide } }]) {
    const pieces = jsonText(value);
    let count = 0;
    for (let step = pieces.next(); ; step = pieces.next(), count += 1) {
      if (step.done !== true) continue;
      t.equal(step.value, JSON.stringify(value));
      break;
    }
    t.ok(count > 100);
  }
});

t.test('a stored text is written as it is at any place', async (t) => {
  const part = new JsonPart('{"a.b":"$x","n":1.50}');
  t.equal(
    atOnce(jsonText({ rows: [{ data: part, at: null }], none: undefined })),
    `{"rows":[{"data":${part.text},"at":null}]}`,
  );
  t.equal(atOnce(jsonText(part)), part.text);
  t.equal(JSON.stringify({ data: part }), '{"data":{"a.b":"$x","n":1.5}}', 'as its value, where pieces are unknown');
});
