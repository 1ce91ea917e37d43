import path from 'node:path';
import { MANUAL } from '#scripts/engines/manual.ts';
import { openNotes, type Uses, unknownUses } from '#scripts/engines/uses.ts';
import { chooseEngine, enginesHere } from '#scripts/services/mongodb.ts';
import { onStopSignals } from '#scripts/supervisor/stop-signals.ts';
import { compileProcesses } from './compile-processes.ts';
import { runTap } from './run-tap.ts';
import { runStaticCheck, STATIC_CHECKS } from './static-checks.ts';
import { createTapReport, type TapTotals } from './tap-report.ts';
import { findTestFiles, isPure, restsOnEngine } from './test-files.ts';

export interface ChecksOptions {
  /** Skips every test that needs MongoDB, Redis or whole processes. */
  readonly pure?: boolean;
  /** Runs only the test files whose path contains one of these, and no static check. */
  readonly filters?: readonly string[];
  /** Runs the tests that rest on the database again, on each other engine that this machine has. */
  readonly everyEngine?: boolean;
  /** Further options of tap. */
  readonly tapOptions?: readonly string[];
  /** Receives the features of MongoDB that product code used. If set, static checks and the comparison with docs/engines.md are skipped. */
  readonly takeUses?: (uses: Uses, totals: TapTotals) => void;
}

const ROOT = path.resolve(import.meta.dirname, '../..');
const SLOWEST_FILES = 5;
const SLOW_MS = 3_000;

/**
 * Runs the static checks and then tap. The last line is `N passed, N failed`; every assertion and every static check counts as one.
 * Returns the exit code: 1 after any failure, after a stop signal, or if nothing ran, otherwise 0.
 */
export async function runChecks(options: ChecksOptions): Promise<number> {
  const stop = new AbortController();
  onStopSignals({ first: () => stop.abort(), again: () => process.exit(130) });
  let totals: TapTotals = { passed: 0, failed: 0 };
  const add = ({ passed, failed }: TapTotals) => {
    totals = { passed: totals.passed + passed, failed: totals.failed + failed };
  };
  try {
    if ((options.filters ?? []).length === 0 && options.takeUses === undefined) {
      for (const check of STATIC_CHECKS) {
        stop.signal.throwIfAborted();
        const ok = await runStaticCheck(ROOT, check, stop.signal);
        console.log(`${ok ? 'ok  ' : 'FAIL'} ${check.name}: ${check.what}`);
        add({ passed: ok ? 1 : 0, failed: ok ? 0 : 1 });
      }
    }
    for (const pass of passesOf(options)) add(await runTests(pass, options, stop.signal));
  } catch (error) {
    add({ passed: 0, failed: 1 });
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    console.log(stop.signal.aborted ? '\nstopped by a signal' : reason);
  }
  console.log(`${totals.passed} passed, ${totals.failed} failed`);
  return totals.failed > 0 || totals.passed === 0 ? 1 : 0;
}

/** One run of tap: all requested files on the best engine, or the files that rest on the database on another engine. */
interface Pass {
  title: string | undefined;
  env: NodeJS.ProcessEnv;
  wants: (file: string) => boolean;
}

function passesOf({ pure = false, everyEngine = false }: ChecksOptions): Pass[] {
  if (pure) return [{ title: undefined, env: {}, wants: isPure }];
  if (process.env.MONGODB_URL) return [{ title: 'the server of MONGODB_URL', env: {}, wants: () => true }];
  const { name, is, advice } = chooseEngine(process.env);
  const first = { title: advice === undefined ? is : `${is}; ${advice}`, env: {}, wants: () => true };
  if (!everyEngine) return [first];
  const others = enginesHere(process.env).filter((other) => other.name !== name);
  if (others.length === 0)
    console.log(`SKIPPED: tests on a second engine. This machine has ${is} alone: see \`npm run engine\``);
  return [
    first,
    ...others.map((other) => ({ title: other.is, env: { EXAMHALL_ENGINE: other.name }, wants: restsOnEngine })),
  ];
}

async function runTests(pass: Pass, options: ChecksOptions, signal: AbortSignal): Promise<TapTotals> {
  const { filters = [], tapOptions = [] } = options;
  const all = findTestFiles(ROOT, filters);
  const files = all.filter(pass.wants);
  // If no requested file depends on the engine, there is nothing to repeat on another engine.
  if (files.length === 0 && pass.env.EXAMHALL_ENGINE !== undefined) return { passed: 0, failed: 0 };
  if (files.length === 0) {
    console.log(`FAIL no test file matches ${filters.join(' ') || 'at all'}`);
    return { passed: 0, failed: 1 };
  }
  if (!files.every(isPure)) {
    console.log(`${files.length} test files, MongoDB: ${pass.title}`);
    compileProcesses(ROOT);
  }
  const isWhole = files.length === all.length && filters.length === 0;
  const args = [...tapOptions, ...(isWhole ? [] : files)];
  const report = createTapReport((line) => console.log(line));
  const notes = openNotes();
  try {
    const ok = await runTap({ root: ROOT, args, env: { ...pass.env, ...notes.env }, signal }, report);
    const slow = report.slowest(SLOW_MS).slice(0, SLOWEST_FILES);
    if (slow.length > 0) console.log('slowest files:');
    for (const { file, durationMs } of slow) console.log(`  ${(durationMs / 1_000).toFixed(1).padStart(6)} s  ${file}`);
    const { passed, failed } = report.totals();
    // A crash of tap, or of a file before its first assertion, counts as a failure too.
    const totals = { passed, failed: Math.max(failed, ok ? 0 : 1) };
    if (options.takeUses === undefined) return { passed, failed: totals.failed + reportUnknown(notes.read()) };
    options.takeUses(notes.read(), totals);
    return totals;
  } finally {
    notes.remove();
  }
}

/** Reports features that docs/engines.md does not list, and returns their number. */
function reportUnknown(uses: Uses): number {
  const unknown = unknownUses(uses, MANUAL);
  if (unknown.length === 0) return 0;
  console.log('FAIL product code uses features of MongoDB that docs/engines.md does not list:');
  for (const line of unknown) console.log(`  ${line}`);
  console.log('describe them in scripts/engines/manual.ts and record them: `npm run engines`, then `npm run generate`');
  return unknown.length;
}
