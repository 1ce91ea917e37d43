import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ReportRow } from './row.ts';

/** Results of one run: a measure on one engine. */
export interface Result {
  measure: string;
  rows: ReportRow[];
  /** Lines of the report that name the servers of this run. */
  servers: string[];
}

/** Results of a full run by title, kept in a file until the report is written, so that an hour is not lost to one failure. */
export interface Measured {
  get(title: string): Result | undefined;
  /** Stores a result before it returns. */
  add(title: string, result: Result): void;
  /** Deletes the file: the report holds everything. */
  forget(): void;
}

/**
 * Opens the results of a full run. With `resume` it begins with those of an earlier run, without it empty.
 * @throws Error if there is nothing to resume, or if the code under measurement has changed since
 */
export function openMeasured(file: string, code: string, { resume }: { resume: boolean }): Measured {
  const stored = resume ? read(file, code) : {};
  const results = new Map<string, Result>(Object.entries(stored));
  return {
    get: (title) => results.get(title),
    add(title, result) {
      results.set(title, result);
      mkdirSync(path.dirname(file), { recursive: true });
      const next = `${file}.next`;
      writeFileSync(next, JSON.stringify({ code, results: Object.fromEntries(results) }));
      renameSync(next, file);
    },
    forget: () => rmSync(file, { force: true }),
  };
}

function read(file: string, code: string): Record<string, Result> {
  if (!existsSync(file)) throw new Error('there is no unfinished run to resume');
  const stored = JSON.parse(readFileSync(file, 'utf8')) as { code: string; results: Record<string, Result> };
  if (stored.code !== code) throw new Error('the code has changed since the unfinished run: start a new one');
  return stored.results;
}

/** Returns a digest of the code that is measured: every file of the product and the versions of its libraries. */
export function codeDigest(root: string): string {
  const files = execFileSync('git', ['ls-files', 'api', 'shared', 'workers', 'package-lock.json'], { cwd: root })
    .toString()
    .split('\n')
    .filter((file) => file !== '' && !file.endsWith('.test.ts') && existsSync(path.join(root, file)));
  const digest = createHash('sha256');
  for (const file of files) digest.update(`${file}\n`).update(readFileSync(path.join(root, file)));
  return digest.digest('hex');
}
