import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { signalGroup } from '../supervisor/data-folder.ts';
import { identify } from '../supervisor/process-identity.ts';
import { keeperFolder } from '../testing/lanes/keeper-link.ts';
import { readTotals, type TapTotals } from './tap-report.ts';

export interface TapRun {
  readonly root: string;
  /** Options and test files. Without files, tap runs all that .taprc includes. */
  readonly args: readonly string[];
  /** Kills tap and every test. */
  readonly signal: AbortSignal;
}

const KEEPER_TIMEOUT_MS = 20_000;

/**
 * Runs tap and shows its report as it grows. Resolves when neither the tests nor their stores run any more. An exit with an error
 * counts as one failure at least.
 */
export async function runTap({ root, args, signal }: TapRun): Promise<TapTotals> {
  signal.throwIfAborted();
  // tap redraws its report in place unless CI is set. Its --output-file cannot be used: with it, tap 21 ends before the last report.
  const child = spawn(process.execPath, ['node_modules/.bin/tap', '--reporter=base', ...colour(), ...args], {
    cwd: root,
    env: { ...process.env, CI: '1' },
    // A process group of its own: one signal reaches tap, the test files and whatever they started.
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { pid } = child;
  const runner = pid === undefined ? undefined : identify(pid);
  const killGroup = () => void (pid !== undefined && signalGroup(pid, 'SIGKILL'));
  signal.addEventListener('abort', killGroup, { once: true });
  process.once('exit', killGroup);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    process.stdout.write(text);
    output += text;
  });
  try {
    const code = await new Promise<number>((resolve, reject) => {
      child.on('error', reject);
      // A process that a test left behind may hold the pipe open: kill it, so that the pipe closes.
      child.on('exit', killGroup);
      child.on('close', (exitCode) => resolve(exitCode ?? 1));
    });
    signal.throwIfAborted();
    const { passed, failed } = readTotals(output);
    return { passed, failed: Math.max(failed, code === 0 ? 0 : 1) };
  } finally {
    if (runner !== undefined) await keeperEnd(keeperFolder(runner));
    signal.removeEventListener('abort', killGroup);
    process.off('exit', killGroup);
  }
}

function colour(): string[] {
  return process.stdout.isTTY && !process.env.NO_COLOR ? ['--color'] : ['--no-color'];
}

/** The keeper of the stores ends when it misses the runner, and removes its folder last. */
async function keeperEnd(folder: string): Promise<void> {
  const giveUpAt = performance.now() + KEEPER_TIMEOUT_MS;
  while (existsSync(folder)) {
    if (performance.now() > giveUpAt) throw new Error(`the keeper of the test stores does not end: see ${folder}`);
    await delay(50);
  }
}
