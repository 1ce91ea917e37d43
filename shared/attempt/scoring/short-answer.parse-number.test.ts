import fc from 'fast-check';
import t from 'tap';
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
  const whole = take('0123456789');
  let fraction = '';
  if (rest.startsWith('.') || rest.startsWith(',')) {
    rest = rest.slice(1);
    fraction = take('0123456789');
  }
  if (whole === '' && fraction === '') return null;
  let exponent = '0';
  if (rest.startsWith('e') || rest.startsWith('E')) {
    rest = rest.slice(1);
    const exponentSign = takeSign();
    const digits = take('0123456789');
    if (digits === '' || Number(digits) > 400) return null;
    exponent = `${exponentSign}${digits}`;
  }
  return rest === '' ? `${sign}${whole || '0'}.${fraction || '0'}e${exponent}` : null;
}
