import { readTokens, type Token } from './tokens.ts';

/** One import of one file, as written. */
export interface ImportStatement {
  readonly specifier: string;
  /** `import type` and `export type`: erased before anything runs. `import { type X }` is not, it still loads the module. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** A way to load a module whose name the source does not show: `require`, or `import()` of a computed name. */
export interface HiddenImport {
  readonly what: string;
  readonly line: number;
}

/** Functions of Node that load a module or return such a function. `require` is one when it is called. */
const LOADERS = ['createRequire', 'getBuiltinModule'];
const IN_CLAUSE = ['{', '}', ',', '*'];

/** Every import and re-export of a TypeScript source, and what could import more; line numbers count from 1. */
export function readImports(source: string): { imports: ImportStatement[]; hidden: HiddenImport[] } {
  const tokens = readTokens(source);
  const imports: ImportStatement[] = [];
  const hidden: HiddenImport[] = [];
  for (const [at, token] of tokens.entries()) {
    const { kind, text, line } = token;
    if (kind !== 'word') continue;
    const isCall = isMark(tokens[at + 1], '(');
    if (LOADERS.includes(text) || (text === 'require' && isCall)) hidden.push({ what: text, line });
    if ((text !== 'import' && text !== 'export') || isMark(tokens[at - 1], '.')) continue;
    if (text === 'import' && isCall) {
      const specifier = argumentOf(tokens, at + 2);
      // In a type, import('x').Y is erased; nothing here writes types that way, so each counts as loaded.
      if (specifier === undefined) hidden.push({ what: 'import()', line });
      else imports.push({ specifier, typeOnly: false, line });
      continue;
    }
    const typeOnly = isTypeOnly(tokens, at + 1);
    const specifier = specifierOf(tokens, typeOnly ? at + 2 : at + 1, text);
    if (specifier !== undefined) imports.push({ specifier, typeOnly, line });
  }
  return { imports, hidden };
}

/** The literal that is the first argument of a call; undefined if it is computed. */
function argumentOf(tokens: readonly Token[], at: number): string | undefined {
  const next = tokens[at + 1];
  const isWhole = isMark(next, ')') || isMark(next, ',');
  return tokens[at]?.kind === 'string' && isWhole ? tokens[at]?.text : undefined;
}

/** `import type from './x.ts'` and `import type, { x } from …` import a value of that name. */
function isTypeOnly(tokens: readonly Token[], at: number): boolean {
  const [type, next, afterNext] = tokens.slice(at, at + 3);
  if (!isWord(type, 'type') || isMark(next, ',')) return false;
  return !(isWord(next, 'from') && afterNext?.kind === 'string');
}

/** The specifier of the import or export whose clause begins at `at`; undefined for a declaration and for `import.meta`. */
function specifierOf(tokens: readonly Token[], at: number, keyword: 'import' | 'export'): string | undefined {
  const first = tokens[at];
  if (keyword === 'import' && first?.kind === 'string') return first.text;
  if (keyword === 'export' && !isMark(first, '{') && !isMark(first, '*')) return undefined;
  for (let i = at; ; i += 1) {
    const token = tokens[i];
    if (token === undefined || (token.kind === 'mark' && !IN_CLAUSE.includes(token.text))) return undefined;
    const next = tokens[i + 1];
    if (isWord(token, 'from') && next?.kind === 'string') return next.text;
    if (isMark(token, '}') && !isWord(next, 'from')) return undefined;
  }
}

function isMark(token: Token | undefined, text: string): boolean {
  return token?.kind === 'mark' && token.text === text;
}

function isWord(token: Token | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text === text;
}
