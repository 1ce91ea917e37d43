import type { Nodes } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table';
import { gfmTable } from 'micromark-extension-gfm-table';
import { type Piece, prose } from './piece.ts';

/** Returns the headings, paragraphs, list items and table cells of a Markdown document. Fenced code and HTML are left out. */
export function documentPieces(file: string, source: string): Piece[] {
  const pieces: Piece[] = [];
  visit(fromMarkdown(source, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] }), (node) => {
    const text = prose(plainText(node));
    if (text !== '') pieces.push({ kind: 'document', file, line: node.position?.start.line ?? 1, text });
  });
  return pieces;
}

function visit(node: Nodes, onText: (node: Nodes) => void): void {
  if (node.type === 'heading' || node.type === 'paragraph' || node.type === 'tableCell') onText(node);
  else if ('children' in node) for (const child of node.children) visit(child, onText);
}

/** The text of a node with inline code as one word. */
function plainText(node: Nodes): string {
  if (node.type === 'inlineCode') return 'CODE';
  if (node.type === 'break') return ' ';
  if ('children' in node) return node.children.map(plainText).join('');
  return node.type === 'text' ? node.value : '';
}
