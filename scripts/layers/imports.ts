import { type Node, type StringLiteral, traverseFast } from '@babel/types';
import { lineOf, parseSource } from '#scripts/parse-source.ts';

/** One import of one file, as written. */
export interface ImportStatement {
  readonly specifier: string;
  /** `import type` and `export type`: erased before the program runs. `import { type X }` still loads the module. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** A way to load a module whose name the source does not show: `require`, or `import()` of a computed name. */
export interface HiddenImport {
  readonly what: string;
  readonly line: number;
}

/** Functions of Node that load a module or return such a function. */
const LOADERS = new Set(['createRequire', 'getBuiltinModule']);

/** The imports of a file, and the places where it does what only certain files may do. */
interface SourceFacts {
  readonly imports: ImportStatement[];
  readonly hidden: HiddenImport[];
  /** Lines that name the member `normalize` of a value. */
  readonly normalizing: number[];
}

/**
 * Returns every import and re-export of a TypeScript source in its order, every place that could import more, and each use of `normalize`. A
 * type `import('x').Y` is erased and is not returned.
 * @throws Error if the source has a syntax error
 */
export function readImports(file: string, source: string): SourceFacts {
  const imports: ImportStatement[] = [];
  const hidden: HiddenImport[] = [];
  const normalizing: number[] = [];

  function add(node: Node, source: StringLiteral | null | undefined, kind?: string | null): void {
    if (source) imports.push({ specifier: source.value, typeOnly: kind === 'type', line: lineOf(node) });
  }

  traverseFast(parseSource(file, source).tree, (node) => {
    if (node.type === 'ImportDeclaration') add(node, node.source, node.importKind);
    else if (node.type === 'ExportAllDeclaration') add(node, node.source, node.exportKind);
    else if (node.type === 'ExportNamedDeclaration') add(node, node.source, node.exportKind);
    else if (node.type === 'ImportExpression') {
      const specifier = constantOf(node.source);
      if (specifier === undefined) hidden.push({ what: 'import()', line: lineOf(node) });
      else imports.push({ specifier, typeOnly: false, line: lineOf(node) });
    } else {
      const what = loaderOf(node);
      if (what !== undefined) hidden.push({ what, line: lineOf(node) });
      if (memberOf(node) === 'normalize') normalizing.push(lineOf(node));
    }
  });
  return { imports, hidden, normalizing };
}

/** The name of the member that a node reads: `a.b`, `a?.b` or `a['b']`; undefined for any other node. */
function memberOf(node: Node): string | undefined {
  if (node.type !== 'MemberExpression' && node.type !== 'OptionalMemberExpression') return undefined;
  const { property } = node;
  if (property.type === 'StringLiteral') return property.value;
  return property.type === 'Identifier' && !node.computed ? property.name : undefined;
}

/** The name of the loader that a node uses; undefined for any other node. */
function loaderOf(node: Node): string | undefined {
  if (node.type === 'TSExternalModuleReference') return 'require';
  if (node.type === 'CallExpression') {
    return node.callee.type === 'Identifier' && node.callee.name === 'require' ? 'require' : undefined;
  }
  return node.type === 'Identifier' && LOADERS.has(node.name) ? node.name : undefined;
}

/** The text of a string or of a template without expressions; undefined if it is computed. */
function constantOf(node: Node): string | undefined {
  if (node.type === 'StringLiteral') return node.value;
  return node.type === 'TemplateLiteral' && node.expressions.length === 0
    ? (node.quasis[0]?.value.cooked ?? undefined)
    : undefined;
}
