import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { chooseEngine, enginesHere } from '#scripts/start/services/mongodb.ts';
import { onStopSignals } from '#scripts/start/supervisor/processes.ts';
import { findTestFiles, isPure, isQuick, restsOnEngine } from './project-files.ts';
import { createTapReport, runTap, type TapTotals } from './tap-report.ts';

export interface ChecksOptions {
  /** Skips every test that needs MongoDB, Redis or whole processes. */
  readonly pure?: boolean;
  /** Adds to `pure` one test of a whole cluster. */
  readonly quick?: boolean;
  /** Runs only the test files whose path contains one of these, and no static check. */
  readonly filters?: readonly string[];
  /** Repeats the tests that rest on the database on each other engine of this machine. */
  readonly everyEngine?: boolean;
  readonly tapOptions?: readonly string[];
}

const ROOT = path.resolve(import.meta.dirname, '../../..');
// Only the changed files and their importers are checked again.
const INCREMENTAL = ['--incremental', '--tsBuildInfoFile', '.cache/types.tsbuildinfo'];
/** The checks without a test runner, each with the arguments of Node. Each counts as one passed or failed check. */
const STATIC_CHECKS: readonly (readonly [name: string, what: string, ...args: readonly string[]])[] = [
  ['types', 'tsc --noEmit', 'node_modules/.bin/tsc', '--noEmit', ...INCREMENTAL],
  ['lint', 'biome check', 'node_modules/.bin/biome', 'check', '--max-diagnostics=50', '.'],
  ['layers', 'imports follow the arrows; no small file has one reader', 'scripts/testing/checks/check-layers.ts'],
  ['prose', 'comments, messages and documents follow the style sheet', 'scripts/testing/checks/check-prose.ts'],
  ['generated', 'generated files match their sources', 'scripts/generate/generate.ts', '--check'],
];

const SLOWEST_FILES = 5;
const SLOW_MS = 3_000;
/** Memory of one lane: MongoDB, Redis, and the processes of a cluster. */
const LANE_BYTES = 1.5 * 1024 ** 3;

/**
 * Runs the static checks and, beside them, the test files by tap. The last line is `N passed, N failed`; every assertion and every static
 * check counts as one. Returns the exit code: 1 after any failure, after a stop signal, or if nothing ran, otherwise 0.
 */
export async function runChecks(options: ChecksOptions): Promise<number> {
  const stop = new AbortController();
  onStopSignals({ first: () => stop.abort(), again: () => process.exit(130) });
  let totals: TapTotals = { passed: 0, failed: 0 };
  const add = ({ passed, failed }: TapTotals) => {
    totals = { passed: totals.passed + passed, failed: totals.failed + failed };
  };
  const isWhole = (options.filters ?? []).length === 0;
  try {
    const [first, ...others] = passesOf(options);
    await Promise.all([
      isWhole ? runStaticChecks(stop.signal, add) : undefined,
      first === undefined ? undefined : runTests(first, options, stop.signal).then(add),
    ]);
    for (const pass of others) add(await runTests(pass, options, stop.signal));
  } catch (error) {
    add({ passed: 0, failed: 1 });
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    console.log(stop.signal.aborted ? '\nstopped by a signal' : reason);
    stop.abort();
  }
  console.log(`${totals.passed} passed, ${totals.failed} failed`);
  return totals.failed > 0 || totals.passed === 0 ? 1 : 0;
}

async function runStaticChecks(signal: AbortSignal, add: (totals: TapTotals) => void): Promise<void> {
  for (const [name, what, ...args] of STATIC_CHECKS) {
    signal.throwIfAborted();
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], signal });
    const ended = new Promise<boolean>((resolve) => {
      child.on('error', () => resolve(false));
      child.on('exit', (code) => resolve(code === 0));
    });
    // An abort destroys the streams.
    const said = await Promise.all([child.stdout, child.stderr].map((stream) => text(stream).catch(() => '')));
    const ok = await ended;
    const output = said.join('').trimEnd();
    if (!ok && output !== '') console.log(output);
    console.log(`${ok ? 'ok  ' : 'FAIL'} ${name}: ${what}`);
    add({ passed: ok ? 1 : 0, failed: ok ? 0 : 1 });
  }
}

/** One run of tap: all requested files on the best engine, or those that rest on the database on another engine. */
interface Pass {
  readonly title: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly wants: (file: string) => boolean;
}

function passesOf({ pure = false, quick = false, everyEngine = false }: ChecksOptions): Pass[] {
  if (pure) return [{ title: 'none', wants: isPure }];
  const wants = quick ? isQuick : () => true;
  if (process.env.MONGODB_URL) return [{ title: 'the server of MONGODB_URL', wants }];
  const { name, is, advice } = chooseEngine(process.env);
  const first = { title: advice === undefined ? is : `${is}; ${advice}`, wants };
  if (!everyEngine) return [first];
  const others = enginesHere(process.env).filter((other) => other.name !== name);
  if (others.length === 0)
    console.log(`SKIPPED: tests on a second engine. This machine has ${is} alone: see \`npm run engine\``);
  const repeated = others.map(({ name: engine, is: title }) => ({
    title,
    env: { EXAMHALL_ENGINE: engine },
    wants: restsOnEngine,
  }));
  return [first, ...repeated];
}

async function runTests(pass: Pass, options: ChecksOptions, signal: AbortSignal): Promise<TapTotals> {
  const { filters = [], tapOptions = [] } = options;
  const files = findTestFiles(ROOT, filters).filter(pass.wants);
  // If no requested file depends on the engine, there is nothing to repeat on another engine.
  if (files.length === 0 && pass.env !== undefined) return { passed: 0, failed: 0 };
  if (files.length === 0) {
    console.log(`FAIL no test file matches ${filters.join(' ') || 'at all'}`);
    return { passed: 0, failed: 1 };
  }
  const needStores = !files.every(isPure);
  const lanes = lanesFor(process.env);
  if (needStores) console.log(`${files.length} test files, ${lanes} at a time, MongoDB: ${pass.title}`);

  const report = createTapReport(console.log);
  const stores = needStores ? [] : ['--before=', '--after='];
  const tap = { root: ROOT, files, options: [`--jobs=${lanes}`, ...stores, ...tapOptions], signal };
  const ok = await runTap({ ...tap, ...(pass.env && { env: pass.env }) }, report);

  const slow = report.slowest(SLOW_MS).slice(0, SLOWEST_FILES);
  if (slow.length > 0) console.log('slowest files:');
  for (const { file, durationMs } of slow) console.log(`  ${(durationMs / 1_000).toFixed(1).padStart(6)} s  ${file}`);
  const { passed, failed } = report.totals();
  // A crash of tap, or of a file before its first assertion, counts as a failure too.
  return { passed, failed: Math.max(failed, ok ? 0 : 1) };
}

/**
 * Returns the number of files at a time: TAP_JOBS, otherwise one more than the machine has cores, because tests also wait. A small memory
 * lowers it.
 */
function lanesFor(env: NodeJS.ProcessEnv): number {
  const wanted = Number(env.TAP_JOBS) || os.availableParallelism() + 1;
  return Math.max(1, Math.min(wanted, Math.floor(os.totalmem() / LANE_BYTES)));
}
