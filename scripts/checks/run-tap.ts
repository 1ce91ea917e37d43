import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { signalGroup } from '#scripts/supervisor/data-folder.ts';
import { identify } from '#scripts/supervisor/process-identity.ts';
import { keeperFolder } from '#testing/lanes/keeper-link.ts';
import type { TapReport } from './tap-report.ts';

export interface TapRun {
  readonly root: string;
  /** Arguments of Node: tap or `run-files.ts`, its options and its test files. */
  readonly args: readonly string[];
  /** Added to the environment of the runner and of every test. */
  readonly env?: NodeJS.ProcessEnv;
  /** Kills the runner and every test when it aborts. */
  readonly signal: AbortSignal;
}

const KEEPER_TIMEOUT_MS = 20_000;

/**
 * Runs a program that prints TAP and passes its lines to `report`. Waits until neither the tests nor their stores run any more, and
 * returns whether the program succeeded.
 *
 * This function parses the TAP, because tap's own reporters are unreliable without a terminal: after the timeout of a file, the redrawing
 * reporters lose their last report with the totals.
 */
export async function runTap({ root, args, env, signal }: TapRun, report: TapReport): Promise<boolean> {
  signal.throwIfAborted();
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    // In its own process group: one signal reaches the runner, the test files and all their children.
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { pid } = child;
  const runner = pid === undefined ? undefined : identify(pid);
  const killGroup = () => void (pid !== undefined && signalGroup(pid, 'SIGKILL'));
  signal.addEventListener('abort', killGroup, { once: true });
  process.once('exit', killGroup);
  const lines = createInterface({ input: child.stdout }).on('line', (line) => report.read(line));
  const read = once(lines, 'close');
  try {
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
    if (runner !== undefined) await keeperEnd(keeperFolder(runner));
    signal.removeEventListener('abort', killGroup);
    process.off('exit', killGroup);
  }
}

/** Waits for the end of the keeper of the stores. It ends when the runner has ended, and deletes its folder last. */
async function keeperEnd(folder: string): Promise<void> {
  const giveUpAt = performance.now() + KEEPER_TIMEOUT_MS;
  while (existsSync(folder)) {
    if (performance.now() > giveUpAt) throw new Error(`the keeper of the test stores does not end: see ${folder}`);
    await delay(50);
  }
}
