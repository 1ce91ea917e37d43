import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseDocument, type Scalar, visit } from 'yaml';
import { signalGroup } from '#scripts/start/supervisor/processes.ts';
import { endStores } from '#testing/run/stores.ts';

export interface TapTotals {
  readonly passed: number;
  readonly failed: number;
}

interface FileResult {
  readonly file: string;
  readonly durationMs: number;
}

export type TapReport = ReturnType<typeof createTapReport>;

/** Matches the result of a file. Results of the tests in it are indented and do not match. A skipped file has no duration. */
const FILE = /^(not )?ok (\d+) - (.+?) # (?:time=([\d.]+)ms|SKIP (.*))/;
const SUMMARY = /^# \{ (total: .*) \}$/;
/** tap's reason for skipping a file that ends without an assertion. Such a file counts as failed. */
const EMPTY = 'no tests found';
/** Matches lines of a failed file that do not concern its failure. */
const PASSED = /^\s*(ok \d+ |1\.\.\d+|# time=|TAP version|$)/;
/** Matches the result of a test that threw an error whose message tap omits. It does so for each error whose code is a number. */
const UNNAMED = /^( *)not ok \d+ - unhandled error$/;
/** Matches details about the end of a failed file's process. Its other details are arguments and paths. */
const ENDING = /^ {2}(exitCode|signal|expired|failure|reason): (?!null)/;

/** Creates a report that prints a line for each file and, for a failed one, its output without the passed tests. */
export function createTapReport(say: (line: string) => void) {
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
    if (isFailed) for (const line of failureIn(output)) say(line);
    output = [];
  }

  return {
    /** Reads the next line that tap prints. */
    read(line: string) {
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
    // Before tap prints its summary, only failed files count. A file that is killed may have no failed assertion.
    totals: (): TapTotals => ({ ...totals, failed: Math.max(totals.failed, failedFiles) }),
    /** Returns the files that took `minMs` or longer, longest first. */
    slowest: (minMs: number) =>
      files.filter(({ durationMs }) => durationMs >= minMs).sort((a, b) => b.durationMs - a.durationMs),
  };
}

/** Returns the lines of a failed file that concern its failure. An error that tap has not named is named after its result. */
function failureIn(output: readonly string[]): string[] {
  return output.flatMap((line, index) => {
    const [, indent] = UNNAMED.exec(line) ?? [];
    if (indent === undefined) return PASSED.test(line) ? [] : [line];

    const details = output.slice(index + 2, output.indexOf(`${indent}  ...`, index));
    return [line, `${indent}  # ${errorIn(details.join('\n'))}`];
  });
}

/** Returns type, code and message of an error from tap's details. MongoDB's reply, a part of the error, repeats the message. */
function errorIn(details: string): string {
  const document = parseDocument(details, { logLevel: 'silent' });
  let message = 'tap omits its message';
  visit(document, {
    Pair(_, { key, value }) {
      if (!/^(errmsg|message)$/.test(String(key))) return undefined;
      message = String((value as Scalar).value).replace(/\s+/g, ' ');
      return visit.BREAK;
    },
  });
  const name = ['type', 'code'].flatMap((key) => document.get(key) ?? []).join(' ');
  return `${name || 'Error'}: ${message}`;
}

/** Reads the totals from tap's summary, which omits keys that are zero. */
function totalsOf(summary: string): TapTotals {
  const count = (key: string) => Number(new RegExp(`\\b${key}: (\\d+)`).exec(summary)?.[1] ?? 0);
  return { passed: count('pass'), failed: count('fail') };
}

interface TapRun {
  readonly root: string;
  readonly files: readonly string[];
  readonly options: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

const TAP = path.join('node_modules', '.bin', 'tap');
/** Time in which the processes of a test end by themselves after an abort. */
const GRACE_MS = 3_000;

/**
 * Runs test files by tap and passes the lines that it prints to `report`. Waits until nothing of the run lives any more, and returns whether
 * tap succeeded.
 */
export async function runTap({ root, files, options, env, signal }: TapRun, report: TapReport): Promise<boolean> {
  signal.throwIfAborted();
  // tap's own reporters lose their last lines after the timeout of a file, unless they write to a terminal.
  const child = spawn(process.execPath, [TAP, '--reporter=tap', ...options, ...files], {
    cwd: root,
    env: { ...process.env, ...env },
    // In its own process group: one signal reaches tap, the test files and all their children.
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { pid = 0 } = child;
  const killGroup = () => void (pid > 0 && signalGroup(pid, 'SIGKILL'));
  const stop = () => {
    if (pid > 0) signalGroup(pid, 'SIGTERM');
    setTimeout(killGroup, GRACE_MS).unref();
  };
  signal.addEventListener('abort', stop, { once: true });
  process.once('exit', killGroup);

  try {
    const lines = createInterface({ input: child.stdout }).on('line', (line) => report.read(line));
    const read = once(lines, 'close');
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      // A process that a test left behind may hold the pipe open: kill it, so that the pipe closes.
      child.on('exit', killGroup);
      child.on('close', resolve);
    });
    await read;
    signal.throwIfAborted();
    return code === 0;
  } finally {
    // A tap that was killed has not run its `after`.
    endStores(pid);
    signal.removeEventListener('abort', stop);
    process.off('exit', killGroup);
  }
}
