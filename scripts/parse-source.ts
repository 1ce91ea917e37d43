import { type ParserOptions, parse } from '@babel/parser';
import type { Comment, File, Node } from '@babel/types';

/** A TypeScript source as its parser sees it. */
export interface ParsedSource {
  readonly tree: File;
  /** In the order of the source; `value` has no comment marks. */
  readonly comments: readonly Comment[];
}

const OPTIONS: ParserOptions = {
  sourceType: 'module',
  plugins: ['typescript'],
  createImportExpressions: true,
  attachComment: false,
};

/** Parses a TypeScript source; `file` names it in the error. @throws Error if the source has a syntax error */
export function parseSource(file: string, source: string): ParsedSource {
  try {
    const tree = parse(source, OPTIONS);
    return { tree, comments: tree.comments ?? [] };
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`);
  }
}

/** Returns the line of a node or comment, from 1. */
export function lineOf(node: Node | Comment): number {
  return node.loc?.start.line ?? 1;
}
