import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { signalGroup } from '#scripts/supervisor/data-folder.ts';
import { totalsOf } from './tap-report.ts';

export interface FileResult {
  readonly path: string;
  readonly ok: boolean;
  readonly passed: number;
  /** At least one where the file is not ok: a crash fails without a failed assertion of its own. */
  readonly failed: number;
  readonly durationMs: number;
  /** What the file printed. */
  readonly lines: readonly string[];
}

/** Seconds that tap gives a file and each test in it. */
const PATIENCE_SECONDS = 600;
/** For a file that does not even end when tap has given it up. */
const GRACE_SECONDS = 30;

/** Runs one test file, which is a program that prints TAP, on this Node. `signal` kills it with all that it started. */
export async function runFile(
  deps: { root: string; env: NodeJS.ProcessEnv; signal: AbortSignal },
  path: string,
): Promise<FileResult> {
  deps.signal.throwIfAborted();
  const began = performance.now();
  const env = { ...deps.env, NO_COLOR: '1', TAP_TIMEOUT: String(PATIENCE_SECONDS) };
  const child = spawn(process.execPath, [path], {
    cwd: deps.root,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const end = () => {
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
  };
  const over = new AbortController();
  deps.signal.addEventListener('abort', end, { once: true, signal: over.signal });
  process.once('exit', end);
  delay((PATIENCE_SECONDS + GRACE_SECONDS) * 1_000, undefined, { signal: over.signal }).then(end, () => undefined);
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) => resolve(exitCode ?? 1));
  });
  over.abort();
  process.off('exit', end);
  const totals = totalsOf(lines) ?? { passed: 0, failed: 1 };
  const failed = Math.max(totals.failed, code === 0 ? 0 : 1);
  return { path, ok: failed === 0, passed: totals.passed, failed, durationMs: performance.now() - began, lines };
}
