import { readFileSync } from 'node:fs';
import path from 'node:path';

/** Assertions of one run of tap. */
export interface TapTotals {
  readonly passed: number;
  readonly failed: number;
}

export interface FileDuration {
  readonly file: string;
  readonly durationMs: number;
}

const SUMMARY = /^# \{ (total: .*) \}$/gm;
const DURATION = /^# time=([\d.]+)ms$/gm;

/** Reads the summary that tap prints at its end. A run without one was killed, or found no file: it counts nothing. */
export function readTotals(output: string): TapTotals {
  const [, summary = ''] = [...output.matchAll(SUMMARY)].at(-1) ?? [];
  // The summary omits keys that are zero.
  const count = (key: string) => Number(new RegExp(`\\b${key}: (\\d+)`).exec(summary)?.[1] ?? 0);
  return { passed: count('pass'), failed: count('fail') };
}

/** Returns the files that took `minMs` or longer, longest first. tap keeps the output of each file below `.tap/test-results`. */
export function slowestFiles(root: string, files: readonly string[], minMs: number): FileDuration[] {
  return files
    .map((file) => ({ file, durationMs: durationOf(path.join(root, '.tap/test-results', `${file}.tap`)) }))
    .filter(({ durationMs }) => durationMs >= minMs)
    .sort((a, b) => b.durationMs - a.durationMs);
}

/** A file that was killed has no duration: it counts as 0. */
function durationOf(result: string): number {
  try {
    const [, durationMs = 0] = [...readFileSync(result, 'utf8').matchAll(DURATION)].at(-1) ?? [];
    return Number(durationMs);
  } catch {
    return 0;
  }
}
