import t from 'tap';
import { documentPieces } from './document-pieces.ts';
import { sourcePieces } from './source-pieces.ts';

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
    documentPieces('x.md', document).map(({ line, text }) => [line, text]),
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
