import fc from 'fast-check';
import t from 'tap';
import * as exact from '#testing/fractions.ts';
import { sampleQuestion } from '#testing/stored/sample-attempt.ts';
import { scoreQuestion } from './score-question.ts';
import { parseNumber } from './short-answer.ts';

t.test('parses numbers as students type them', async (t) => {
  const accepted: [string, string][] = [
    ['12', '12'],
    [' \u00a0-3,5\t', '-3.5'],
    ['\u22122', '-2'],
    ['+.5', '0.5'],
    ['5.', '5'],
    ['5,', '5'],
    ['1e3', '1000'],
    ['1,5E\u22122', '0.015'],
    ['2e+0002', '200'],
    ['007', '7'],
    ['-0', '0'],
    ...[...'\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d'].map((minus): [string, string] => [
      `${minus}7e${minus}1`,
      '-0.7',
    ]),
    ['\u202d0,\u200b5\ufeff', '0.5'],
  ];
  for (const [text, value] of accepted) t.equal(parseNumber(text)?.plus(0).toString(), value, text);
  t.equal(parseNumber('1e400')?.toExponential(), '1e+400');
  t.equal(parseNumber(`${' '.repeat(500)}${'9'.repeat(400)}`)?.toString(), '9'.repeat(400), 'spaces do not count');
});

t.test('rejects text that is not a number', async (t) => {
  const refused = ['', ' ', '.', ',', '-', 'e5', '1e', '1e401', '1e-401', '1.234,5', '1,234,567', '1 000', '0x1F'];
  refused.push(
    '1_000',
    'Infinity',
    'NaN',
    '--1',
    '+-1',
    '٣',
    '１',
    '1/2',
    '5%',
    '1e1.5',
    '\u20147',
    '\u20157',
    '9'.repeat(401),
  );
  refused.push(`1e${'9'.repeat(300)}`);
  for (const text of refused) t.equal(parseNumber(text), null, JSON.stringify(text.slice(0, 20)));
});

t.test('parsing a number agrees with a reference parser on any short text', async () => {
  const text = fc.string({ unit: fc.constantFrom(...'0159.,eE+-\u2212\u2013\u200b x'), maxLength: 9 });
  fc.assert(
    fc.property(text, (typed) => {
      const ours = parseNumber(typed);
      const theirs = readByHand(typed.replaceAll('\u200b', '').trim());
      return theirs === null ? ours === null : ours?.equals(theirs) === true;
    }),
    { numRuns: 3_000 },
  );
});

t.test('parses every number that JSON can write', async () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      return parseNumber(String(value))?.toNumber() === (value === 0 ? 0 : value);
    }),
  );
});

/** Reference parser for short texts: reads character by character, without a pattern. */
function readByHand(text: string): string | null {
  let rest = text;
  const take = (characters: string) => {
    let taken = '';
    while (rest !== '' && characters.includes(rest.charAt(0))) {
      taken += rest.charAt(0);
      rest = rest.slice(1);
    }
    return taken;
  };
  const takeSign = () => {
    if (rest === '' || !'+-\u2212\u2013'.includes(rest.charAt(0))) return '';
    const isMinus = rest.charAt(0) !== '+';
    rest = rest.slice(1);
    return isMinus ? '-' : '';
  };
  const sign = takeSign();
  const units = take('0123456789');
  let fraction = '';
  if (rest.startsWith('.') || rest.startsWith(',')) {
    rest = rest.slice(1);
    fraction = take('0123456789');
  }
  if (units === '' && fraction === '') return null;
  let exponent = '0';
  if (rest.startsWith('e') || rest.startsWith('E')) {
    rest = rest.slice(1);
    const exponentSign = takeSign();
    const digits = take('0123456789');
    if (digits === '' || Number(digits) > 400) return null;
    exponent = `${exponentSign}${digits}`;
  }
  return rest === '' ? `${sign}${units || '0'}.${fraction || '0'}e${exponent}` : null;
}

const seed = Date.now() & 0x7fffffff;
const whole = (value: number) => exact.fractionOf(value);
const loss = fc.oneof(fc.constant(0), fc.double({ min: Number.MIN_VALUE, max: Number.MAX_VALUE, noNaN: true }));

const key = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.tuple(fc.integer({ min: -1_000, max: 1_000 }), fc.constantFrom(3, 7, 10, 1_000)).map(([n, d]) => n / d),
  fc.constantFrom(0, 0.1 + 0.2, 1 - 0.9, 1e21, 123_456_789_012_345_680),
);
const tolerance = fc.oneof(loss, fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 0.1, 0.3 - 0.2));

/** How a tolerance may be sent: in the rule or in the number of the key, of texts or of numbers, under each name of the mode. */
const sending = fc
  .record({
    type: fc.constantFrom('SHORT_TEXT', 'NUMERIC', 'CLOZE'),
    mode: fc.constantFrom('EXACT' as const, 'SHORT_TEXT' as const, 'NUMERIC' as const, 'PARTIAL' as const),
    place: fc.constantFrom('rule' as const, 'number' as const, 'text' as const),
    isRelative: fc.boolean(),
  })
  .filter(
    ({ type, mode }) =>
      type === 'CLOZE' || mode === 'EXACT' || mode === type || `${type}${mode}` === 'SHORT_TEXTNUMERIC',
  )
  .filter(({ type, mode, place }) => place !== 'text' || (type !== 'NUMERIC' && mode !== 'NUMERIC'));

const digits = fc.bigInt({ min: 0n, max: 10n ** 30n });

/** Answers relative to the edge of the tolerance, in units of its 50th digit; or a number of its own. */
const answers = fc.oneof(
  fc.record({ side: fc.constantFrom(1n, -1n), off: fc.constantFrom(0n, 1n, -1n, 10n ** 20n, -(10n ** 20n)) }),
  key.map((value) => ({ value })),
);

/** Returns the largest permitted distance from a key. */
function allowedAt(at: exact.Fraction, sent: number, isRelative: boolean): exact.Fraction {
  const distance = isRelative ? exact.times(exact.sizeOf(at), whole(sent)) : whole(sent);
  if (distance.n === 0n) return distance;
  return exact.plus(distance, exact.times(exact.fractionOf('1e-12'), exact.larger(exact.sizeOf(at), distance)));
}

/** Returns a number as it reads at 15 significant digits. A tie goes to the larger magnitude. */
function readAt15(value: exact.Fraction): exact.Fraction {
  if (value.n === 0n) return value;
  const estimate = Math.floor(Math.log10(exact.numberOf(exact.sizeOf(value))));
  const powers = [estimate + 1, estimate, estimate - 1];
  const power = powers.find((each) => exact.isAtMost(exact.fractionOf(`1e${each}`), exact.sizeOf(value))) ?? Number.NaN;
  return exact.roundedTo(14 - power, value);
}

/** Writes a fraction with about 50 digits, moved by `off` units of the last one. Null if a student may not type so large a number. */
function written({ n, d }: exact.Fraction, off: bigint): string | null {
  const size = n < 0n ? -n : n;
  const places = 50 - (String(size).length - String(d).length);
  const units = places < 0 ? size / (d * 10n ** BigInt(-places)) : (size * 10n ** BigInt(places)) / d;
  return Math.abs(places) > 400 ? null : `${(n < 0n ? -units : units) + off}e${-places}`;
}

t.test(`a number is right within the tolerance that was sent, in every mode (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(key, tolerance, sending, answers, digits, (value, sent, asked, answer, more) => {
      const { type, mode, place, isRelative } = asked;
      // A text may have more digits than a number of JSON.
      const keyText = place === 'text' && /^-?\d+\.\d+$/.test(String(value)) ? `${value}${more}` : String(value);
      const at = exact.fractionOf(keyText);
      const toEdge = (side: bigint) => exact.times(allowedAt(at, sent, isRelative), { n: side, d: 1n });
      const typed = 'value' in answer ? String(answer.value) : written(exact.plus(at, toEdge(answer.side)), answer.off);
      fc.pre(typed !== null);
      const number = { value, ...(place === 'number' ? { tolerance: sent } : {}) };
      const question = sampleQuestion({
        type,
        options: [],
        scoringRule: {
          mode,
          ...(place === 'number' ? {} : { tolerance: sent }),
          ...(isRelative ? { toleranceType: 'RELATIVE' as const } : {}),
        },
        answerKey: place === 'text' ? { acceptedTexts: [keyText] } : { numericAnswers: [number] },
      });
      const given = exact.fractionOf(typed);
      const isRight = [at, readAt15(at)].some((each) =>
        exact.isAtMost(exact.sizeOf(exact.minus(given, each)), allowedAt(each, sent, isRelative)),
      );
      return scoreQuestion(question, { text: typed }).score === (isRight ? 1 : 0);
    }),
    { seed, numRuns: 4_000 },
  );
  t.pass();
});

t.test('a range that an importer computed includes both of its ends', async (t) => {
  const tenths = fc.integer({ min: -10_000, max: 10_000 });
  const scale = fc.constantFrom(10, 100, 1_000);
  fc.assert(
    fc.property(tenths, fc.integer({ min: 1, max: 10_000 }), scale, (from, width, parts) => {
      const [low, high] = [from / parts, (from + width) / parts];
      const range = { value: (low + high) / 2, tolerance: (high - low) / 2 };
      const question = sampleQuestion({
        type: 'NUMERIC',
        options: [],
        scoringRule: { mode: 'EXACT' },
        answerKey: { numericAnswers: [range] },
      });
      const ends = [low, high].map((end) => scoreQuestion(question, { text: String(end) }).score);
      const beyond = [from - 1, from + width + 1].map(
        (end) => scoreQuestion(question, { text: String(end / parts) }).score,
      );
      return ends.every((score) => score === 1) && beyond.every((score) => score === 0);
    }),
  );
  t.pass();
});

t.test('without a tolerance an accepted text is compared only as a text', async () => {
  fc.assert(
    fc.property(fc.integer(), fc.nat(5), (value, zeros) => {
      const question = sampleQuestion({
        type: 'SHORT_TEXT',
        options: [],
        scoringRule: { mode: 'SHORT_TEXT' },
        answerKey: { acceptedTexts: [String(value)] },
      });
      return scoreQuestion(question, { text: `${value}.${'0'.repeat(zeros)}` }).score === 0;
    }),
  );
});

t.test('every way to write an accepted text is right, however much longer it is', async () => {
  const letter = fc.constantFrom(...'aZđếỆßİıΐᾂᾼǰẖ각ﬃ', '\u{1d15e}', '\u2f800', '\u{2f800}', ' ');
  const accepted = fc.string({ unit: letter, minLength: 1, maxLength: 12 }).filter((text) => text.trim() !== '');
  const writing = fc.tuple(
    fc.constantFrom('NFC' as const, 'NFD' as const),
    fc.constantFrom('toLowerCase' as const, 'toUpperCase' as const, 'toString' as const),
    fc.constantFrom(' ', '\u3000'.repeat(1_000)),
  );
  fc.assert(
    fc.property(fc.array(accepted, { minLength: 1, maxLength: 3 }), writing, (acceptedTexts, [form, inCase, space]) => {
      const question = sampleQuestion({
        type: 'SHORT_TEXT',
        options: [],
        scoringRule: { mode: 'SHORT_TEXT' },
        answerKey: { acceptedTexts },
      });
      const [text = ''] = acceptedTexts;
      // Only the small letters of these have a capital of their own.
      const typed = /[ıİ]/.test(text) ? text : text[inCase]();
      return (
        scoreQuestion(question, { text: `${space}${typed.normalize(form).replaceAll(' ', space)}${space}` }).score === 1
      );
    }),
  );
});
