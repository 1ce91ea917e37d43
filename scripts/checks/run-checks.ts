import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chooseEngine, enginesHere } from '#scripts/services/mongodb.ts';
import { onStopSignals } from '#scripts/supervisor/stop-signals.ts';
import { compileProcesses } from './compile-processes.ts';
import { openDurations } from './durations.ts';
import { planRun } from './plan-run.ts';
import { openRunDisplay } from './run-display.ts';
import { runTap } from './run-tap.ts';
import { runStaticCheck, STATIC_CHECKS } from './static-checks.ts';
import { createTapReport, type TapTotals } from './tap-report.ts';
import { findTestFiles, isPure, isQuick, restsOnEngine } from './test-files.ts';

export interface ChecksOptions {
  /** Skips every test that needs MongoDB, Redis or whole processes. */
  readonly pure?: boolean;
  /** Adds to `pure` one test of a whole cluster. */
  readonly quick?: boolean;
  /** Runs only the test files whose path contains one of these, and no static check. */
  readonly filters?: readonly string[];
  /** Repeats the tests that rest on the database on each other engine of this machine. */
  readonly everyEngine?: boolean;
  /** Runs the files with tap's own runner and these options, for its coverage. */
  readonly tapOptions?: readonly string[];
}

const ROOT = path.resolve(import.meta.dirname, '../..');
const SLOWEST_FILES = 5;
const SLOW_MS = 3_000;
/** Memory of one lane: MongoDB, Redis, and the processes of a cluster. */
const LANE_BYTES = 1.5 * 1024 ** 3;

/**
 * Runs the test files, and the static checks beside them. The last line is `N passed, N failed`; every assertion and every static check
 * counts as one. Returns the exit code: 1 after any failure, after a stop signal, or if nothing ran, otherwise 0.
 */
export async function runChecks(options: ChecksOptions): Promise<number> {
  const stop = new AbortController();
  onStopSignals({ first: () => stop.abort(), again: () => process.exit(130) });
  let totals: TapTotals = { passed: 0, failed: 0 };
  const add = ({ passed, failed }: TapTotals) => {
    totals = { passed: totals.passed + passed, failed: totals.failed + failed };
  };
  const isWhole = (options.filters ?? []).length === 0;
  const output: Output = { say: print };
  try {
    const [first, ...others] = passesOf(options);
    await Promise.all([
      isWhole ? runStaticChecks(output, stop.signal, add) : undefined,
      first === undefined ? undefined : runTests(first, options, output, stop.signal).then(add),
    ]);
    for (const pass of others) add(await runTests(pass, options, output, stop.signal));
  } catch (error) {
    add({ passed: 0, failed: 1 });
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    output.say(stop.signal.aborted ? '\nstopped by a signal' : reason);
    stop.abort();
  }
  console.log(`${totals.passed} passed, ${totals.failed} failed`);
  return totals.failed > 0 || totals.passed === 0 ? 1 : 0;
}

/** Where results are printed: above the progress of the running tests, if any run. */
interface Output {
  say(line: string): void;
}

function print(line: string): void {
  console.log(line);
}

async function runStaticChecks(output: Output, signal: AbortSignal, add: (totals: TapTotals) => void): Promise<void> {
  for (const check of STATIC_CHECKS) {
    signal.throwIfAborted();
    const { ok, said } = await runStaticCheck(ROOT, check, signal);
    if (!ok && said !== '') output.say(said);
    output.say(`${ok ? 'ok  ' : 'FAIL'} ${check.name}: ${check.what}`);
    add({ passed: ok ? 1 : 0, failed: ok ? 0 : 1 });
  }
}

/** One run of the test files: all requested ones on the best engine, or those that rest on the database on another engine. */
interface Pass {
  /** Name of the stored durations. */
  name: string;
  title: string | undefined;
  env: NodeJS.ProcessEnv;
  wants: (file: string) => boolean;
}

function passesOf({ pure = false, quick = false, everyEngine = false }: ChecksOptions): Pass[] {
  if (pure) return [{ name: 'pure', title: undefined, env: {}, wants: isPure }];
  const wants = quick ? isQuick : () => true;
  if (process.env.MONGODB_URL) return [{ name: 'given', title: 'the server of MONGODB_URL', env: {}, wants }];
  const { name, is, advice } = chooseEngine(process.env);
  const first = { name, title: advice === undefined ? is : `${is}; ${advice}`, env: {}, wants };
  if (!everyEngine) return [first];
  const others = enginesHere(process.env).filter((other) => other.name !== name);
  if (others.length === 0)
    console.log(`SKIPPED: tests on a second engine. This machine has ${is} alone: see \`npm run engine\``);
  return [
    first,
    ...others.map((other) => ({
      name: other.name,
      title: other.is,
      env: { EXAMHALL_ENGINE: other.name },
      wants: restsOnEngine,
    })),
  ];
}

async function runTests(pass: Pass, options: ChecksOptions, output: Output, signal: AbortSignal): Promise<TapTotals> {
  const { filters = [], tapOptions } = options;
  const files = findTestFiles(ROOT, filters).filter(pass.wants);
  // If no requested file depends on the engine, there is nothing to repeat on another engine.
  if (files.length === 0 && pass.env.EXAMHALL_ENGINE !== undefined) return { passed: 0, failed: 0 };
  if (files.length === 0) {
    console.log(`FAIL no test file matches ${filters.join(' ') || 'at all'}`);
    return { passed: 0, failed: 1 };
  }
  const lanes = lanesFor(process.env);
  if (!files.every(isPure)) {
    console.log(`${files.length} test files, ${lanes} at a time, MongoDB: ${pass.title}`);
    compileProcesses(ROOT);
  }
  const durations = openDurations(ROOT, pass.name);
  const display = openRunDisplay({ files, lanes, expected: durations.expected });
  output.say = display.line;
  const isWhole = filters.length === 0;
  const passed = isWhole ? () => undefined : display.line;
  const report = createTapReport(display.line, { passed, finished: display.finished });
  // If a developer names files, each gets a process of its own, as with `npx tap`.
  const plan = () =>
    planRun(files, durations, isWhole ? (file) => readFileSync(path.join(ROOT, file), 'utf8') : undefined);
  const args =
    tapOptions === undefined
      ? ['scripts/checks/run-files.ts', String(lanes), ...plan()]
      : ['node_modules/.bin/tap', '--reporter=tap', ...tapOptions, ...(isWhole ? [] : files)];
  try {
    const ok = await runTap({ root: ROOT, args, env: pass.env, signal }, report);
    display.end();
    durations.save(report.passed());
    const slow = report.slowest(SLOW_MS).slice(0, SLOWEST_FILES);
    if (slow.length > 0) console.log('slowest files:');
    for (const { file, durationMs } of slow) console.log(`  ${(durationMs / 1_000).toFixed(1).padStart(6)} s  ${file}`);
    const { passed: assertions, failed } = report.totals();
    // A crash of the runner, or of a file before its first assertion, counts as a failure too.
    return { passed: assertions, failed: Math.max(failed, ok ? 0 : 1) };
  } finally {
    display.end();
    output.say = print;
  }
}

/**
 * Returns the number of files at a time: TAP_JOBS, otherwise one more than the machine has cores, because tests also wait. A small memory
 * lowers it.
 */
function lanesFor(env: NodeJS.ProcessEnv): number {
  const wanted = Number(env.TAP_JOBS) || os.availableParallelism() + 1;
  return Math.max(1, Math.min(wanted, Math.floor(os.totalmem() / LANE_BYTES)));
}
