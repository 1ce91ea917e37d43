import { type Comment, type Node, traverseFast } from '@babel/types';
import { lineOf, parseSource } from '#scripts/parse-source.ts';
import { type Piece, prose } from './piece.ts';

/** Comments that a tool reads. */
const DIRECTIVE = /^(?:biome-|@ts-|eslint|c8 |v8 |prettier|#!|\/ <reference)/;
const TEST_CALLS = new Set(['test', 'only', 'skip', 'todo']);
const LOG_LEVELS = new Set(['trace', 'debug', 'info', 'warn', 'error', 'fatal']);
/** Properties whose text reaches people: OpenAPI, failures, faults of a check. */
const TEXT_KEYS = new Set(['summary', 'description', 'message', 'title', 'reason', 'what']);

/** Returns the comments, test titles, log messages and messages of a TypeScript source. @throws Error if it has a syntax error */
export function sourcePieces(file: string, source: string): Piece[] {
  const { comments, tree } = parseSource(file, source);
  const pieces: Piece[] = [];

  function add(kind: Piece['kind'], node: Node): void {
    const text = textOf(node);
    if (text !== null) pieces.push({ kind, file, line: lineOf(node), text: prose(text) });
  }

  for (const { line, text } of blocksOf(comments, source)) {
    for (const { offset, paragraph } of paragraphsOf(text)) {
      pieces.push({ kind: 'comment', file, line: line + offset, text: prose(paragraph) });
    }
  }
  traverseFast(tree, (node) => {
    if (node.type === 'ObjectProperty' && TEXT_KEYS.has(nameOf(node.key))) add('message', node.value);
    if (node.type !== 'CallExpression') return;
    const { callee, arguments: args } = node;
    if (TEST_CALLS.has(nameOf(callee))) for (const title of args.slice(0, 1)) add('test title', title);
    if (isLog(callee)) for (const argument of args) add('log message', argument);
  });
  return pieces.filter(({ text }) => text !== '');
}

function isLog(callee: Node): boolean {
  if (callee.type !== 'MemberExpression') return false;
  return LOG_LEVELS.has(nameOf(callee.property)) && /log$/i.test(nameOf(callee.object));
}

/** The last name of an expression: `test` of `t.test`. Empty for one that has no name. */
function nameOf(node: Node): string {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'StringLiteral') return node.value;
  return node.type === 'MemberExpression' ? nameOf(node.property) : '';
}

/** The text of a string or template, its expressions as `CODE`; null for any other node. */
function textOf(node: Node): string | null {
  if (node.type === 'StringLiteral') return node.value;
  if (node.type !== 'TemplateLiteral') return null;
  return node.quasis.map(({ value }) => value.cooked ?? '').join('CODE');
}

/** Joins line comments on adjacent lines, and removes the marks of a block comment. */
function blocksOf(comments: readonly Comment[], source: string): { line: number; text: string }[] {
  const blocks: { line: number; end: number; text: string; isLine: boolean }[] = [];
  for (const comment of comments) {
    const { type, value, start = 0, end = 0 } = comment;
    if (DIRECTIVE.test(value.trim())) continue;
    const isLine = type === 'CommentLine';
    const text = isLine ? value : value.replaceAll(/^[ \t]*\*+ ?/gm, '');
    const before = blocks.at(-1);
    if (isLine && before?.isLine && /^\r?\n[ \t]*$/.test(source.slice(before.end, start))) {
      before.text += `\n${text}`;
      before.end = end;
    } else {
      blocks.push({ line: lineOf(comment), end, text, isLine });
    }
  }
  return blocks;
}

/** Splits at empty lines, list items and tags; `offset` counts lines from the start of the block. */
function paragraphsOf(text: string): { offset: number; paragraph: string }[] {
  const paragraphs: { offset: number; paragraph: string }[] = [];
  let isNew = true;
  for (const [offset, line] of text.split('\n').entries()) {
    if (line.trim() === '') {
      isNew = true;
      continue;
    }
    for (const [index, part] of line.split(/(?=@(?:throws|returns|param|example|see)\b)/).entries()) {
      const content = part.replace(/^\s*(?:[-*•] |\d+\. )/, '').replace(/^\s*@\w+/, '');
      const last = paragraphs.at(-1);
      if (isNew || index > 0 || last === undefined || content !== part) paragraphs.push({ offset, paragraph: content });
      else last.paragraph += ` ${content}`;
      isNew = false;
    }
  }
  return paragraphs;
}
