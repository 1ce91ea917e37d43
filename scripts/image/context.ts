import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** One line of `.dockerignore`. */
export interface IgnoreRule {
  readonly pattern: string;
  readonly matches: RegExp;
  /** True for a line with `!`, which takes files in again. */
  readonly isException: boolean;
}

/** Reads the lines of a `.dockerignore`. */
export function ignoreRules(source: string): IgnoreRule[] {
  const lines = source.split('\n').map((line) => line.trim());
  return lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!');
      const pattern = line.replace(/^!/, '').replace(/^\/|\/$/g, '');
      return { pattern, matches: expressionOf(pattern), isException };
    });
}

/** Returns whether the last rule that matches a path, or a folder above it, leaves it out. */
export function isIgnored(file: string, rules: readonly IgnoreRule[]): boolean {
  const parts = file.split('/');
  const names = parts.map((_, at) => parts.slice(0, at + 1).join('/'));
  let ignored = false;
  for (const { matches, isException } of rules) {
    if (names.some((name) => matches.test(name))) ignored = !isException;
  }
  return ignored;
}

/** Returns the files of a folder that a build of its image receives, sorted. */
export function contextFiles(root: string): string[] {
  const rules = ignoreRules(readFileSync(path.join(root, '.dockerignore'), 'utf8'));
  const exceptions = rules.filter(({ isException }) => isException).map(({ pattern }) => pattern);
  const files: string[] = [];
  const walk = (folder: string) => {
    for (const entry of readdirSync(path.join(root, folder), { withFileTypes: true })) {
      const name = folder === '' ? entry.name : `${folder}/${entry.name}`;
      const ignored = isIgnored(name, rules);
      if (!entry.isDirectory()) {
        if (!ignored) files.push(name);
      } else if (!ignored || exceptions.some((pattern) => pattern.startsWith(`${name}/`))) walk(name);
    }
  };
  walk('');
  return files.sort();
}

/** Translates a pattern: `**` matches any folders, `*` and `?` match characters of one name. */
function expressionOf(pattern: string): RegExp {
  const source = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll('**/', '\0')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
    .replaceAll('\0', '(?:.*/)?');
  return new RegExp(`^${source}$`);
}
