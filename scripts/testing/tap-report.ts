export interface FileResult {
  readonly path: string;
  readonly ok: boolean;
  readonly durationMs: number;
  /** Lines of the file's own report, whatever it printed included. */
  readonly lines: readonly string[];
}

export interface TapTotals {
  readonly passed: number;
  readonly failed: number;
}

export interface TapReport {
  /** Takes one line of tap's raw output. */
  line(text: string): void;
  readonly files: readonly FileResult[];
  /** undefined until tap has printed its summary; with no test run it prints none. */
  totals(): TapTotals | undefined;
}

const FILE_END = /^(not )?ok \d+ - (.*?\.test\.ts)(?: # (.*))?$/;
const SUMMARY = /^# \{ (total: .*) \}$/;

/** Reads the raw TAP of a run of many files and calls `onFile` at the end of each. */
export function createTapReport(onFile: (result: FileResult) => void): TapReport {
  const files: FileResult[] = [];
  let lines: string[] = [];
  let totals: TapTotals | undefined;

  return {
    files,
    totals: () => totals,
    line: (text) => {
      const end = FILE_END.exec(text);
      const summary = SUMMARY.exec(text);
      if (end?.[2] !== undefined) {
        const duration = /time=([\d.]+)ms/.exec(end[3] ?? '')?.[1] ?? '0';
        const result = { path: end[2], ok: end[1] === undefined, durationMs: Number(duration), lines };
        lines = [];
        files.push(result);
        onFile(result);
      } else if (summary?.[1] !== undefined) {
        // Zero keys are left out of the summary.
        const count = (key: string) => Number(new RegExp(`\\b${key}: (\\d+)`).exec(summary[1] ?? '')?.[1] ?? 0);
        totals = { passed: count('pass'), failed: count('fail') };
      } else lines.push(text);
    },
  };
}

/** A failed file's report without the lines of what passed in it. */
export function withoutPassed(lines: readonly string[]): string[] {
  return lines.filter(
    (line) => !/^\s*(ok \d+|1\.\.\d+|# time=)/.test(line) && line.trim() !== '' && !line.startsWith('TAP version'),
  );
}
