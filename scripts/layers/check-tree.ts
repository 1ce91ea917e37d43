import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { brokenArrow, unknownFolder } from './arrows.ts';
import { findCycles } from './cycles.ts';
import { type ImportStatement, readImports } from './imports.ts';
import { brokenBuiltin, brokenLibrary, packageName, scatteredLibraries } from './libraries.ts';
import { homeOf, placeOf } from './place.ts';
import { brokenSizes } from './sizes.ts';

/** The only file that normalizes texts: without its check, a text with many combining marks costs the square of their number. */
const NORMALIZER = 'shared/kernel/text.ts';

/** Exemptions from the rules, each with its reason. The key is `file -> specifier` for an import, and `file` for a size. */
const EXEMPTIONS: Readonly<Record<string, string>> = {};

export interface Violation {
  readonly where: string;
  readonly what: string;
  readonly reason: string;
}

/**
 * Returns the imports under `root` that go against the arrows or hide what they load. Also returns each folder that the tables of
 * the arrows do not name, each production file of the wrong size, and each text that is normalized outside the kernel. Tests and scripts
 * may import anything. Scripts are read only for cycles, in which an import of a type counts as well.
 */
export function checkTree(root: string, exemptions: Readonly<Record<string, string>> = EXEMPTIONS): Violation[] {
  const files = globSync(['api/**/*.ts', 'workers/**/*.ts', 'shared/**/*.ts', 'scripts/**/*.ts'], { cwd: root })
    .map((file) => file.split(path.sep).join('/'))
    .filter((file) => !file.endsWith('.test.ts') && !file.endsWith('.d.ts'))
    .sort();
  const { packages: production, subpaths } = readManifest(root);
  const violations: Violation[] = [];
  const graph = new Map<string, string[]>();
  const uses = new Map<string, Set<string>>();
  const lines = new Map<string, number>();
  const used = new Set<string>();
  const unknownFolders = new Map<string, string>();

  for (const file of files) {
    const targets: string[] = [];
    const source = readFileSync(path.join(root, file), 'utf8');
    const { imports, hidden, normalizing } = readImports(file, source);
    if (!isFree(file)) {
      lines.set(file, source.trimEnd().split('\n').length);
      const folder = path.posix.dirname(file);
      const unknown = unknownFolder(placeOf(file));
      if (unknown !== undefined) unknownFolders.set(folder, unknown);
      for (const { what, line } of hidden) {
        violations.push({ where: `${file}:${line}`, what, reason: 'production names each import as a literal' });
      }
      for (const line of file === NORMALIZER ? [] : normalizing) {
        violations.push({
          where: `${file}:${line}`,
          what: 'normalize',
          reason: `only ${NORMALIZER} normalizes a text`,
        });
      }
    }
    for (const statement of imports) {
      const target = resolveOwn(file, statement.specifier, subpaths);
      if (target !== undefined) targets.push(target);
      const reason = isFree(file) ? undefined : brokenRule(file, statement, target, production);
      const key = `${file} -> ${statement.specifier}`;
      if (reason !== undefined && exemptions[key] !== undefined) used.add(key);
      else if (reason !== undefined)
        violations.push({ where: `${file}:${statement.line}`, what: statement.specifier, reason });
      const library = packageName(statement.specifier);
      if (library !== undefined && !statement.typeOnly && !isFree(file) && !isBuiltin(library)) {
        uses.set(library, (uses.get(library) ?? new Set()).add(homeOf(file)));
      }
    }
    graph.set(file, targets);
  }

  for (const [folder, reason] of unknownFolders) violations.push({ where: folder, what: 'unknown folder', reason });
  for (const [library, homes] of scatteredLibraries(uses)) {
    violations.push({
      where: homes.join(', '),
      what: library,
      reason: 'one library is imported by one folder, which speaks our words to the rest',
    });
  }
  for (const { file, what, reason } of brokenSizes(lines, graph)) {
    if (exemptions[file] !== undefined) used.add(file);
    else violations.push({ where: file, what, reason });
  }
  for (const cycle of findCycles(graph)) {
    violations.push({
      where: cycle[0] ?? '',
      what: [...cycle, cycle[0]].join(' -> '),
      reason: 'files that import each other are one file in two places',
    });
  }
  for (const key of Object.keys(exemptions)) {
    if (!used.has(key)) violations.push({ where: key, what: 'exemption', reason: 'nothing needs it any more' });
  }
  return violations;
}

function brokenRule(
  file: string,
  statement: ImportStatement,
  target: string | undefined,
  production: ReadonlySet<string>,
): string | undefined {
  if (target !== undefined) {
    if (target.endsWith('.test.ts')) return 'a test is imported by nothing';
    return brokenArrow(placeOf(file), placeOf(target));
  }
  const library = packageName(statement.specifier);
  if (library === undefined || isBuiltin(library)) {
    return statement.typeOnly ? undefined : brokenBuiltin(file, statement.specifier);
  }
  return statement.typeOnly ? undefined : brokenLibrary(file, library, production);
}

function isFree(file: string): boolean {
  return placeOf(file).layer === 'scripts';
}

function isBuiltin(name: string): boolean {
  return process.getBuiltinModule(`node:${name}`) !== undefined;
}

/** The file of ours that a specifier names, or undefined for a package: `./x.ts` from the importing file, `#infra/x.ts` by package.json. */
function resolveOwn(file: string, specifier: string, subpaths: readonly Subpath[]): string | undefined {
  if (specifier.startsWith('.')) return path.posix.join(path.posix.dirname(file), specifier);
  const subpath = subpaths.find(({ prefix }) => specifier.startsWith(prefix));
  return subpath === undefined ? undefined : subpath.folder + specifier.slice(subpath.prefix.length);
}

/** `#infra/` and the folder that it names, `shared/infra/`. */
interface Subpath {
  readonly prefix: string;
  readonly folder: string;
}

interface Manifest {
  readonly dependencies?: Record<string, string>;
  readonly imports?: Record<string, string>;
}

/** The production packages and the subpath imports (`"#infra/*": "./shared/infra/*"`) of package.json. */
function readManifest(root: string): { packages: Set<string>; subpaths: Subpath[] } {
  const file = path.join(root, 'package.json');
  const { dependencies = {}, imports = {} } = (
    existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
  ) as Manifest;
  const subpaths = Object.entries(imports).map(([key, target]) => ({
    prefix: key.replace(/\*$/, ''),
    folder: target.replace(/^\.\//, '').replace(/\*$/, ''),
  }));
  return { packages: new Set(Object.keys(dependencies)), subpaths };
}
