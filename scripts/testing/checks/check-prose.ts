import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from '@babel/parser';
import { type Comment, type Node, traverseFast } from '@babel/types';
import type { Nodes } from 'mdast';
import { readMarkdown } from '#testing/docs/page.ts';

/**
 * `node scripts/testing/checks/check-prose.ts [PART]…`: checks comments, test titles, messages and documents by the style sheet of CONTRIBUTING.md, in the
 * files whose path contains a PART, or in all files. Exits with 1 if it finds a fault.
 */

/** One paragraph that people read, on one line. A piece of code is the word `CODE`. */
export interface Piece {
  readonly kind: 'comment' | 'test title' | 'log message' | 'message' | 'document';
  /** Line of the first character, from 1. */
  readonly line: number;
  readonly text: string;
}

/** Words that the style sheet replaces, with what is written instead. A word in backticks is code and is allowed. */
const DISCOURAGED: readonly (readonly [words: RegExp, instead: string])[] = [
  [
    /\b(?:nobody|somebody|anybody|everybody|no one|someone|anyone|everyone|whoever|whomever)\b/gi,
    'name the actor: worker, front door, caller, student, operator, MongoDB',
  ],
  [/\b(?:is|are|was|were|be) none\b/gi, 'write "is invalid", "is missing" or "is treated as missing"'],
  [/\b(?:take|takes|taken|took|taking|given) (?:\w+ )?(?:away|back)\b/gi, 'write "delete", "undo" or "refund"'],
  [/\b(?:hand|hands|handed|handing)[ -]in\b/gi, 'write "submit"'],
];
const RIDDLES = /^(?:What|Who|Whether|Whoever|Of|By which)\b/;
/** Upper bound of a sentence, in words. The style sheet aims at 25; longer ones are read twice. */
const MAX_WORDS = 30;
const MAX_LINE = 160;
const SENTENCES = new Intl.Segmenter('en', { granularity: 'sentence' });

/** Returns the faults of a text under the style sheet, one line each; empty if it has no fault. */
export function faultsOf({ kind, text }: Pick<Piece, 'kind' | 'text'>): string[] {
  const opener = kind === 'document' ? null : RIDDLES.exec(text);
  const faults = opener === null ? [] : [`opens with "${opener[0]}": begin with a noun or a verb`];
  for (const [words, instead] of DISCOURAGED)
    for (const [found] of text.matchAll(words)) faults.push(`"${found}": ${instead}`);
  for (const { segment } of SENTENCES.segment(text)) {
    const count = segment.split(' ').filter((word) => /[\p{L}\d]/u.test(word)).length;
    if (count > MAX_WORDS) faults.push(`${count} words in one sentence; at most ${MAX_WORDS} are allowed`);
  }
  return faults;
}

/** Returns the numbers of the lines of a document that are too long to read. Fenced code and lines that hold an address are exempt. */
export function longLines(document: string): number[] {
  let isCode = false;
  return document.split('\n').flatMap((line, index) => {
    if (/^\s*(?:```|~~~)/.test(line)) isCode = !isCode;
    return !isCode && line.length > MAX_LINE && !line.includes('://') ? [index + 1] : [];
  });
}

/** Returns the headings, paragraphs, list items and table cells of a Markdown document. Fenced code and HTML are left out. */
export function documentPieces(source: string): Piece[] {
  const plainText = (node: Nodes): string => {
    if (node.type === 'inlineCode') return 'CODE';
    if (node.type === 'break') return ' ';
    if ('children' in node) return node.children.map(plainText).join('');
    return node.type === 'text' ? node.value : '';
  };
  const piecesOf = (node: Nodes): Piece[] => {
    if (node.type === 'heading' || node.type === 'paragraph' || node.type === 'tableCell')
      return [{ kind: 'document', line: node.position?.start.line ?? 1, text: prose(plainText(node)) }];
    return 'children' in node ? node.children.flatMap(piecesOf) : [];
  };
  return piecesOf(readMarkdown(source)).filter(({ text }) => text !== '');
}

/** Comments that a tool reads. */
const DIRECTIVE = /^(?:biome-|@ts-|eslint|c8 |v8 |prettier|#!|\/ <reference)/;
const TEST_CALLS = new Set(['test', 'only', 'skip', 'todo']);
const LOG_LEVELS = new Set(['trace', 'debug', 'info', 'warn', 'error', 'fatal']);
/** Properties whose text reaches people: OpenAPI, failures, faults of a check. */
const TEXT_KEYS = new Set(['summary', 'description', 'message', 'title', 'reason', 'what']);

/** Returns the comments, test titles, log messages and messages of a TypeScript source. @throws Error if it has a syntax error */
export function sourcePieces(file: string, source: string): Piece[] {
  const tree = parseSource(file, source);
  const pieces = paragraphsOf(tree.comments ?? [], source);
  const add = (kind: Piece['kind'], node: Node) => {
    if (node.type === 'StringLiteral') pieces.push({ kind, line: lineOf(node), text: prose(node.value) });
    if (node.type !== 'TemplateLiteral') return;
    const text = node.quasis.map(({ value }) => value.cooked ?? '').join('CODE');
    pieces.push({ kind, line: lineOf(node), text: prose(text) });
  };
  traverseFast(tree, (node) => {
    if (node.type === 'ObjectProperty' && TEXT_KEYS.has(nameOf(node.key))) add('message', node.value);
    if (node.type !== 'CallExpression') return;
    const { callee, arguments: args } = node;
    if (TEST_CALLS.has(nameOf(callee))) for (const title of args.slice(0, 1)) add('test title', title);
    const isLog = callee.type === 'MemberExpression' && /log$/i.test(nameOf(callee.object));
    if (isLog && LOG_LEVELS.has(nameOf(callee))) for (const argument of args) add('log message', argument);
  });
  return pieces.filter(({ text }) => text !== '');
}

function parseSource(file: string, source: string) {
  try {
    return parse(source, { sourceType: 'module', plugins: ['typescript'], attachComment: false });
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`);
  }
}

/** Returns the paragraphs of comments, which end at empty lines, list items and tags. Line comments on adjacent lines are one comment. */
function paragraphsOf(comments: readonly Comment[], source: string): Piece[] {
  const pieces: { kind: 'comment'; line: number; text: string }[] = [];
  let before: Comment | undefined;
  for (const comment of comments.filter(({ value }) => !DIRECTIVE.test(value.trim()))) {
    const isLine = comment.type === 'CommentLine';
    const between = source.slice(before?.end ?? 0, comment.start ?? 0);
    let isNew = !(isLine && before?.type === 'CommentLine' && /^\r?\n[ \t]*$/.test(between));
    const lines = isLine ? [comment.value] : comment.value.replaceAll(/^[ \t]*\*+ ?/gm, '').split('\n');
    for (const [offset, line] of lines.entries()) {
      for (const [index, part] of line.split(/(?=@(?:throws|returns|param|example|see)\b)/).entries()) {
        const text = part.replace(/^\s*(?:[-*•] |\d+\. )/, '').replace(/^\s*@\w+/, '');
        const last = pieces.at(-1);
        const isStart = isNew || index > 0 || text !== part || last === undefined;
        if (isStart) pieces.push({ kind: 'comment', line: lineOf(comment) + offset, text });
        else last.text += ` ${text}`;
        isNew = line.trim() === '';
      }
    }
    before = comment;
  }
  return pieces.map(({ text, ...piece }) => ({ ...piece, text: prose(text) }));
}

const lineOf = (node: Node | Comment): number => node.loc?.start.line ?? 1;

/** Returns the last name of an expression: `test` of `t.test`. Empty for one that has no name. */
function nameOf(node: Node): string {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'StringLiteral') return node.value;
  return node.type === 'MemberExpression' ? nameOf(node.property) : '';
}

/** Returns a text on one line in which each span of code and each address is one word, so that only prose is left to check. */
function prose(text: string): string {
  const code = /`[^`]*`|\{@link [^}]*\}|https?:\/\/\S+/g;
  return text.replaceAll(code, 'CODE').replaceAll(/\s+/g, ' ').trim();
}

if (import.meta.main) {
  const root = path.resolve(import.meta.dirname, '../../..');
  const parts = process.argv.slice(2);
  // A copy of the project without its git folder is checked as well.
  const exclude = (file: string) => /^(?:node_modules$|coverage$|\.)/.test(path.basename(file));
  const files = globSync('**/*.{ts,mjs,md}', { cwd: root, exclude }).sort();
  let count = 0;
  for (const file of files.filter((name) => parts.length === 0 || parts.some((part) => name.includes(part)))) {
    const source = readFileSync(path.join(root, file), 'utf8');
    const isDocument = file.endsWith('.md');
    const faults = (isDocument ? documentPieces(source) : sourcePieces(file, source)).flatMap(({ kind, line, text }) =>
      faultsOf({ kind, text }).map((fault) => `${file}:${line}: ${kind}: ${fault}\n    ${text}`),
    );
    for (const line of isDocument ? longLines(source) : [])
      faults.push(`${file}:${line}: a line of more than ${MAX_LINE} characters`);
    for (const fault of faults) console.log(fault);
    count += faults.length;
  }
  if (count > 0) console.log(`${count} faults in the prose`);
  process.exitCode = count > 0 ? 1 : 0;
}
