export interface TapTotals {
  readonly passed: number;
  readonly failed: number;
}

const SUMMARY = /^# \{ (total: .*) \}$/;

/** What a test program counted at its end; undefined where it never came to one: it crashed, or was killed. */
export function totalsOf(lines: readonly string[]): TapTotals | undefined {
  const summary = lines.findLast((line) => SUMMARY.test(line));
  if (summary === undefined) return undefined;
  // Zero keys are left out of the summary.
  const count = (key: string) => Number(new RegExp(`\\b${key}: (\\d+)`).exec(summary)?.[1] ?? 0);
  return { passed: count('pass'), failed: count('fail') };
}

/** A failed file's report without the lines of what passed in it. */
export function withoutPassed(lines: readonly string[]): string[] {
  return lines.filter(
    (line) => !/^\s*(ok \d+|1\.\.\d+|# time=)/.test(line) && line.trim() !== '' && !line.startsWith('TAP version'),
  );
}
