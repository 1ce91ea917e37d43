import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isAlive, type ProcessIdentity } from '#scripts/supervisor/process-identity.ts';
import { onStopSignals } from '#scripts/supervisor/stop-signals.ts';
import { compileProcesses } from './compile-processes.ts';
import type { FileResult } from './run-file.ts';
import { runLanes } from './run-lanes.ts';
import { runStaticCheck, STATIC_CHECKS } from './static-checks.ts';
import { findTestFiles, type TestCost } from './test-files.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const SLOW_FILES = 5;
const SLOW_MS = 3_000;
/** Tests wait as much as they work, so that a small machine bears one lane more than it has cores. */
const LANES = Number(process.env.TEST_LANES) || 3;

/**
 * Static checks (left out when `filters` ask for certain files), then the tests of the given costs, each with its output.
 * The last line says `N passed, N failed`: every assertion and every static check is one. Resolves to the exit code: not zero
 * on any failure, and when nothing ran.
 */
export async function runChecks(costs: readonly TestCost[], filters: readonly string[]): Promise<number> {
  const say = (line: string) => console.log(line);
  const stop = new AbortController();
  onStopSignals({ first: () => stop.abort(), again: () => process.exit(130) });

  let passed = 0;
  let failed = 0;
  try {
    if (filters.length === 0) {
      for (const check of STATIC_CHECKS) {
        stop.signal.throwIfAborted();
        const ok = await runStaticCheck(ROOT, check, stop.signal);
        say(`${ok ? 'ok  ' : 'FAIL'} ${check.name}: ${check.what}`);
        if (ok) passed += 1;
        else failed += 1;
      }
    }
    const tests = await runTests(costs, filters, stop.signal, say);
    passed += tests.passed;
    failed += tests.failed;
  } catch (error) {
    failed += 1;
    say(
      stop.signal.aborted
        ? 'stopped by a signal'
        : String(error instanceof Error ? (error.stack ?? error.message) : error),
    );
  }
  say(`${passed} passed, ${failed} failed`);
  return failed > 0 || passed === 0 ? 1 : 0;
}

async function runTests(
  costs: readonly TestCost[],
  filters: readonly string[],
  signal: AbortSignal,
  say: (line: string) => void,
): Promise<{ passed: number; failed: number }> {
  const files = findTestFiles(ROOT, filters, costs);
  if (files.length === 0) {
    say(`FAIL no test file matches ${filters.join(' ') || 'at all'}`);
    return { passed: 0, failed: 1 };
  }
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'examhall-test-'));
  const env = { ...process.env, NODE_ENV: 'test', EXAMHALL_TEST_PIDS: path.join(scratch, 'pids') };
  try {
    if (files.some(({ cost }) => cost !== 'pure')) compileProcesses(ROOT);
    const results = await runLanes({ root: ROOT, env, signal, say }, files, LANES);
    sayOfSlowFiles(results, say);
    return {
      passed: results.reduce((sum, { passed }) => sum + passed, 0),
      failed: results.reduce((sum, { failed }) => sum + failed, 0),
    };
  } finally {
    killLeftovers(path.join(scratch, 'pids'), say);
    rmSync(scratch, { recursive: true, force: true });
  }
}

function sayOfSlowFiles(files: readonly FileResult[], say: (line: string) => void): void {
  const slow = files.filter(({ durationMs }) => durationMs >= SLOW_MS).sort((a, b) => b.durationMs - a.durationMs);
  if (slow.length === 0) return;
  say('slowest files:');
  for (const file of slow.slice(0, SLOW_FILES))
    say(`  ${(file.durationMs / 1_000).toFixed(1).padStart(6)} s  ${file.path}`);
}

/** Services of tests that were killed themselves, by their time limit for one. */
function killLeftovers(folder: string, say: (line: string) => void): void {
  let names: string[] = [];
  try {
    names = readdirSync(folder);
  } catch {
    return;
  }
  for (const name of names) {
    const identity = JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as ProcessIdentity | null;
    if (identity === null || !isAlive(identity)) continue;
    say(`     killing process ${identity.pid}, which a test left running`);
    process.kill(identity.pid, 'SIGKILL');
  }
}
