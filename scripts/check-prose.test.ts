import t from 'tap';
import { documentPieces, faultsOf, longLines, sourcePieces } from './check-prose.ts';

/** Thirty words. */
const LONGEST = `Word${' word'.repeat(29)}`;
const SENTENCES: readonly [string, RegExp[]][] = [
  ['Returns the command, or null if it does not exist.', []],
  ['What is counted of the running round.', [/opens with "What"/]],
  ['Of two clocks, one may be ahead.', [/opens with "Of"/]],
  ['Counts what remains of the round.', []],
  ['The row that nobody runs.', [/"nobody": name the actor/]],
  ['A session of another account is none.', [/"is none"/]],
  ['The worker asks the front door and looks again.', []],
  ['The attempt is given back while Redis is away.', [/"given back"/]],
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

const SOURCE = `// One sentence
// on two lines, with \`code\`.

/**
 * First paragraph
 * continued. @throws Error if it
 * fails
 *
 * - an item
 */
export function f() {
  // biome-ignore lint: for a tool
  const notAComment = '// text';
  context.log.warn({ id }, \`lost \${id}\`);
  list.warn('not a log');
  t.test('keeps the order', () => {});
  return { summary: 'Read an attempt', other: 'unread' };
}
`;

t.test('reads comments, test titles, log messages and messages of a source', async (t) => {
  t.strictSame(
    sourcePieces('x.ts', SOURCE).map(({ kind, line, text }) => [kind, line, text]),
    [
      ['comment', 1, 'One sentence on two lines, with CODE.'],
      ['comment', 5, 'First paragraph continued.'],
      ['comment', 6, 'Error if it fails'],
      ['comment', 9, 'an item'],
      ['log message', 14, 'lost CODE'],
      ['test title', 16, 'keeps the order'],
      ['message', 17, 'Read an attempt'],
    ],
  );
  t.throws(() => sourcePieces('x.ts', 'const = 1'), { message: /^x.ts: / });
});

t.test('reads headings, paragraphs, items and cells of a document', async (t) => {
  const document =
    '# A head\n\nA `code` in\na paragraph.\n\n- an item\n\n| a | b |\n| - | - |\n| c | d |\n\n```\ncode\n```\n';
  t.strictSame(
    documentPieces(document).map(({ line, text }) => [line, text]),
    [
      [1, 'A head'],
      [3, 'A CODE in a paragraph.'],
      [6, 'an item'],
      [8, 'a'],
      [8, 'b'],
      [10, 'c'],
      [10, 'd'],
    ],
  );
});
