import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';

/**
 * Program: runs test files in the given order, several at a time, and prints the TAP of all, like `tap --reporter=tap`. Arguments: the
 * number of lanes, then the files. Files that are joined by commas share one process.
 *
 * `npm test` uses it instead of tap's runner, which sorts the files by name and loads its coverage recorder into each of them.
 */
const ROOT = path.resolve(import.meta.dirname, '../..');
const PRELOAD = '--import=./scripts/testing/lanes/preload.ts';
const GROUP = 'scripts/checks/file-group.ts';
/** Time limit of a process, as in .taprc. tap reports the unfinished test; a process that is still alive later is killed. */
const LIMIT_SECONDS = 600;
/** Environment of every file, as in .taprc. FORCE_COLOR has no value and is removed: next to NO_COLOR it makes Node print a warning. */
const TEST_ENV = { NODE_ENV: 'test', NO_COLOR: '1', FORCE_COLOR: undefined };
const TAP_ENV = { TAP: '1', TAP_CWD: ROOT, TAP_TIMEOUT: String(LIMIT_SECONDS) };
const KILL_MS = (LIMIT_SECONDS + 20) * 1_000;

/** Matches the line that a process prints before the tests of a file. */
const BEGIN = /^# file (\S+)$/;
const FAILED = /^not ok /;
const RESULT = /^(not )?ok |^1\.\.0/;
const NO_TESTS = '1..0 # no tests found';
const EMPTY = /^1\.\.0 # (.*)$/;
const SUMMARY = /^# \{ (total: .*) \}$/;
const COUNTS = ['total', 'pass', 'fail', 'skip', 'todo'] as const;

/** Output of one file. */
interface Part {
  readonly file: string;
  readonly beganAt: number;
  endedAt: number;
  readonly lines: string[];
}

const [lanes = '1', ...items] = process.argv.slice(2);
const totals = new Map<string, number>(COUNTS.map((name) => [name, 0]));
const began = performance.now();
let finished = 0;
let groups = 0;
let hasFailed = false;

console.log('TAP version 14');
console.log(`1..${items.flatMap((item) => item.split(',')).length}`);
const queue = items.values();
await Promise.all(
  Array.from({ length: Number(lanes) }, async (_, lane) => {
    // All lanes share one iterator: a free lane takes the next item.
    for (const item of queue) await runItem(item.split(','), lane);
  }),
);
console.log(`# { ${[...totals].map(([name, count]) => `${name}: ${count}`).join(', ')} }`);
console.log(`# time=${(performance.now() - began).toFixed(1)}ms`);
process.exitCode = hasFailed ? 1 : 0;

/** Runs the files of one process and prints their results. */
async function runItem(files: readonly string[], lane: number): Promise<void> {
  const isAlone = files.length === 1;
  const parts: Part[] = isAlone ? [begin(files[0] ?? '')] : [];
  const child = spawn(process.execPath, [PRELOAD, ...(isAlone ? files : [GROUP, String(++groups)])], {
    cwd: ROOT,
    env: {
      ...process.env,
      ...TEST_ENV,
      ...TAP_ENV,
      TAP_JOB_ID: String(lane),
      TEST_GROUP: isAlone ? undefined : files.join(','),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const limit = setTimeout(() => child.kill('SIGKILL'), KILL_MS);
  let hasSummary = false;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [, file] = BEGIN.exec(line) ?? [];
    const last = parts.at(-1);
    if (last !== undefined) last.endedAt = performance.now();
    if (file !== undefined && !isAlone) parts.push(begin(file));
    else if (SUMMARY.test(line)) hasSummary = addTotals(line);
    else last?.lines.push(line);
  });
  const end = await new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(`  failure: ${error.message}`));
    child.on('close', (code, signal) => {
      if (code === 0) resolve('');
      else resolve(signal === null ? `  exitCode: ${code}` : `  signal: ${signal}`);
    });
  });
  clearTimeout(limit);
  for (const file of files) if (!parts.some((part) => part.file === file)) parts.push(begin(file));
  // A process that died without a failed test has failed in the file that it had begun last, and in those that it never began.
  const isUnexplained = end !== '' && !parts.some(isFailed);
  if (isUnexplained && !hasSummary) totals.set('fail', (totals.get('fail') ?? 0) + 1);
  const firstMissing = parts.findIndex(({ lines }) => lines.length === 0);
  const suspect = Math.max(0, firstMissing === -1 ? parts.length - 1 : firstMissing - 1);
  for (const [index, part] of parts.entries()) {
    if (!part.lines.some((line) => RESULT.test(line))) part.lines.push(NO_TESTS);
    print(part, isUnexplained && index >= suspect ? end : '');
  }
}

function begin(file: string): Part {
  const now = performance.now();
  return { file, beganAt: now, endedAt: now, lines: [] };
}

function isFailed({ lines }: Part): boolean {
  return lines.some((line) => FAILED.test(line));
}

function addTotals(line: string): true {
  for (const name of COUNTS) {
    const [, count = '0'] = new RegExp(`\\b${name}: (\\d+)`).exec(line) ?? [];
    totals.set(name, (totals.get(name) ?? 0) + Number(count));
  }
  return true;
}

/** Prints the output of a file, indented as a subtest, and its result. */
function print(part: Part, end: string): void {
  const { file, beganAt, endedAt, lines } = part;
  finished += 1;
  const isBad = end !== '' || isFailed(part);
  const [, skipped] = lines.map((line) => EMPTY.exec(line)).find((match) => match !== null) ?? [];
  const note = skipped === undefined ? `time=${(endedAt - beganAt).toFixed(1)}ms` : `SKIP ${skipped}`;
  const details = end === '' ? [] : ['  ---', end, '  ...'];
  hasFailed ||= isBad;
  console.log(
    [
      `# Subtest: ${file}`,
      ...lines.map((line) => (line === '' ? '' : `    ${line}`)),
      `${isBad ? 'not ok' : 'ok'} ${finished} - ${file} # ${note}`,
      ...details,
      '',
    ].join('\n'),
  );
}
