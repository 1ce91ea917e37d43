/** Assertions of one run of tap. */
export interface TapTotals {
  readonly passed: number;
  readonly failed: number;
}

export interface FileResult {
  readonly file: string;
  readonly durationMs: number;
}

/** Turns the TAP of a run into a readable report. */
export interface TapReport {
  /** Reads the next line that tap prints. */
  read(line: string): void;
  /** Returns the totals. Before tap prints its summary, they count only failed files. */
  totals(): TapTotals;
  /** Returns the files that took `minMs` or longer, longest first. */
  slowest(minMs: number): FileResult[];
}

/** Matches the result of a file. Results of the tests in it are indented and do not match. A skipped file has no duration. */
const FILE = /^(not )?ok (\d+) - (.+?) # (?:time=([\d.]+)ms|SKIP (.*))/;
const SUMMARY = /^# \{ (total: .*) \}$/;
/** tap's reason for skipping a file that ends without an assertion. Such a file counts as failed. */
const EMPTY = 'no tests found';
/** Matches lines of a failed file that do not concern its failure. */
const PASSED = /^\s*(ok \d+ |1\.\.\d+|# time=|TAP version|$)/;
/** Matches details about the end of a failed file's process. Its other details are arguments and paths. */
const ENDING = /^ {2}(exitCode|signal|expired|failure|reason): (?!null)/;

/** Creates a report that prints a line for each file and, for a failed one, its output without the passed tests. */
export function createTapReport(say: (line: string) => void): TapReport {
  const files: FileResult[] = [];
  let planned = '?';
  let output: string[] = [];
  let inDetails = false;
  let failedFiles = 0;
  let totals: TapTotals = { passed: 0, failed: 0 };

  function reportFile([, not, number = '', file = '', durationMs = '0', skip]: readonly string[]): void {
    const isFailed = not !== undefined || skip === EMPTY;
    const result = { file, durationMs: Number(durationMs) };
    files.push(result);
    if (isFailed) failedFiles += 1;
    const note = skip ?? `${(result.durationMs / 1_000).toFixed(1)} s`;
    say(`${isFailed ? 'FAIL' : 'ok  '} ${number.padStart(planned.length)}/${planned} ${file} (${note})`);
    if (isFailed) for (const line of output.filter((text) => !PASSED.test(text))) say(line);
    output = [];
  }

  return {
    read(line) {
      const file = FILE.exec(line);
      const [, summary] = SUMMARY.exec(line) ?? [];
      if (line === '  ---') inDetails = true;
      if (file !== null) reportFile(file);
      else if (summary !== undefined) totals = totalsOf(summary);
      else if (line.startsWith('1..')) planned = line.slice(3);
      else if (!inDetails) output.push(line);
      else if (ENDING.test(line)) say(line);
      if (line === '  ...') inDetails = false;
    },
    // Count at least the failed files: a file that is killed may have no failed assertion.
    totals: () => ({ ...totals, failed: Math.max(totals.failed, failedFiles) }),
    slowest: (minMs) =>
      files.filter(({ durationMs }) => durationMs >= minMs).sort((a, b) => b.durationMs - a.durationMs),
  };
}

/** Reads the totals from tap's summary, which omits keys that are zero. */
function totalsOf(summary: string): TapTotals {
  const count = (key: string) => Number(new RegExp(`\\b${key}: (\\d+)`).exec(summary)?.[1] ?? 0);
  return { passed: count('pass'), failed: count('fail') };
}
