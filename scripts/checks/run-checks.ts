import path from 'node:path';
import { onStopSignals } from '#scripts/supervisor/stop-signals.ts';
import { compileProcesses } from './compile-processes.ts';
import { runTap } from './run-tap.ts';
import { runStaticCheck, STATIC_CHECKS } from './static-checks.ts';
import { createTapReport, type TapTotals } from './tap-report.ts';
import { findTestFiles, isPure } from './test-files.ts';

export interface ChecksOptions {
  /** Skips every test that needs MongoDB, Redis or whole processes. */
  readonly pure?: boolean;
  /** Runs only the test files whose path contains one of these, and no static check. */
  readonly filters?: readonly string[];
  /** Further options of tap. */
  readonly tapOptions?: readonly string[];
}

const ROOT = path.resolve(import.meta.dirname, '../..');
const SLOWEST_FILES = 5;
const SLOW_MS = 3_000;

/**
 * Runs the static checks and then tap. The last line is `N passed, N failed`, where every assertion and every static check counts.
 * Returns the exit code: not 0 after any failure, after a stop signal, and when nothing ran.
 */
export async function runChecks(options: ChecksOptions): Promise<number> {
  const stop = new AbortController();
  onStopSignals({ first: () => stop.abort(), again: () => process.exit(130) });
  let totals: TapTotals = { passed: 0, failed: 0 };
  const add = ({ passed, failed }: TapTotals) => {
    totals = { passed: totals.passed + passed, failed: totals.failed + failed };
  };
  try {
    if ((options.filters ?? []).length === 0) {
      for (const check of STATIC_CHECKS) {
        stop.signal.throwIfAborted();
        const ok = await runStaticCheck(ROOT, check, stop.signal);
        console.log(`${ok ? 'ok  ' : 'FAIL'} ${check.name}: ${check.what}`);
        add({ passed: ok ? 1 : 0, failed: ok ? 0 : 1 });
      }
    }
    add(await runTests(options, stop.signal));
  } catch (error) {
    add({ passed: 0, failed: 1 });
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    console.log(stop.signal.aborted ? '\nstopped by a signal' : reason);
  }
  console.log(`${totals.passed} passed, ${totals.failed} failed`);
  return totals.failed > 0 || totals.passed === 0 ? 1 : 0;
}

async function runTests(options: ChecksOptions, signal: AbortSignal): Promise<TapTotals> {
  const { pure = false, filters = [], tapOptions = [] } = options;
  const files = findTestFiles(ROOT, filters).filter((file) => !pure || isPure(file));
  if (files.length === 0) {
    console.log(`FAIL no test file matches ${filters.join(' ') || 'at all'}`);
    return { passed: 0, failed: 1 };
  }
  if (!files.every(isPure)) compileProcesses(ROOT);
  const isWhole = !pure && filters.length === 0;
  const args = [...tapOptions, ...(isWhole ? [] : files)];
  const report = createTapReport((line) => console.log(line));
  const ok = await runTap({ root: ROOT, args, signal }, report);
  const slow = report.slowest(SLOW_MS).slice(0, SLOWEST_FILES);
  if (slow.length > 0) console.log('slowest files:');
  for (const { file, durationMs } of slow) console.log(`  ${(durationMs / 1_000).toFixed(1).padStart(6)} s  ${file}`);
  const { passed, failed } = report.totals();
  // A crash of tap, or of a file before its first assertion, is a failure as well.
  return { passed, failed: Math.max(failed, ok ? 0 : 1) };
}
