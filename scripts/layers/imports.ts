/** One import of one file, as written. */
export interface ImportStatement {
  readonly specifier: string;
  /** `import type` and `export type`: erased before anything runs. `import { type X }` is not, it still loads the module. */
  readonly typeOnly: boolean;
  readonly line: number;
}

const STATIC = /^[ \t]*(?:import|export)\s+(type\s+)?(?:[\w*{}\s,$]+?\s+from\s+)?(['"])([^'"\n]+)\2/gm;
const DYNAMIC = /\bimport\s*\(\s*(['"])([^'"\n]+)\1/g;

/** Every import and re-export of a TypeScript source; comments are left out, line numbers count from 1. */
export function readImports(source: string): ImportStatement[] {
  const code = blankComments(source);
  const found: (ImportStatement & { at: number })[] = [];
  for (const match of code.matchAll(STATIC)) {
    found.push({ specifier: match[3] ?? '', typeOnly: match[1] !== undefined, ...place(code, match.index) });
  }
  for (const match of code.matchAll(DYNAMIC)) {
    // In a type, import('x').Y is erased; nothing here writes types that way, so each counts as loaded.
    found.push({ specifier: match[2] ?? '', typeOnly: false, ...place(code, match.index) });
  }
  return found.sort((a, b) => a.at - b.at).map(({ specifier, typeOnly, line }) => ({ specifier, typeOnly, line }));
}

function place(code: string, at: number): { line: number; at: number } {
  const start = at + (/^\s*/.exec(code.slice(at, at + 200))?.[0].length ?? 0);
  return { line: code.slice(0, start).split('\n').length, at };
}

/** Spaces in place of comments, so that offsets and lines stay; strings are stepped over, for they may hold comment marks. */
function blankComments(source: string): string {
  return source.replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, (found) =>
    found.startsWith('/') ? found.replace(/[^\n]/g, ' ') : found,
  );
}
