import t from 'tap';
import { faultsOf, longLines } from './faults.ts';

/** Thirty words. */
const LONGEST = `Word${' word'.repeat(29)}`;
const SENTENCES: readonly [string, RegExp[]][] = [
  ['Returns the command, or null if it does not exist.', []],
  ['What is counted of the running round.', [/opens with "What"/]],
  ['Of two clocks, one may be ahead.', [/opens with "Of"/]],
  ['Counts what remains of the round.', []],
  ['The row that nobody runs.', [/"nobody": name the actor/]],
  ['A session of another account is none.', [/"is none"/]],
  ['The worker tells the front door and looks again.', [/"tells"/, /"looks"/]],
  ['Look up the account in the look-up table.', []],
  ['The attempt is given back while Redis is away.', [/"given back"/, /"away"/]],
  ['Hands in what remains.', [/"Hands in"/]],
  [`${LONGEST}. ${LONGEST}.`, []],
  [`${LONGEST} word.`, [/31 words/]],
  ['A stand-in, e.g. the standard one, is given a restart to understand.', []],
];

t.test('a comment is held against the style sheet', async (t) => {
  for (const [text, faults] of SENTENCES) {
    const found = faultsOf({ kind: 'comment', text });
    t.equal(found.length, faults.length, text);
    t.match(found, faults, text);
  }
});

t.test('a cell or heading of a document may open with "What"', async (t) => {
  t.strictSame(faultsOf({ kind: 'document', text: 'What' }), []);
});

t.test('names the lines of a document that are too long, outside of fenced code and without an address', async (t) => {
  const long = 'x'.repeat(161);
  t.strictSame(longLines(['fine', long, '```', long, '```', `https://example.org ${long}`, long].join('\n')), [2, 7]);
});
