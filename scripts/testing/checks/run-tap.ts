import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { signalGroup } from '#scripts/start/supervisor/processes.ts';
import { endStores } from '#testing/run/stores.ts';
import type { TapReport } from './tap-report.ts';

export interface TapRun {
  readonly root: string;
  readonly files: readonly string[];
  /** Options of tap beside those of .taprc. */
  readonly options: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** Ends tap and every test when it aborts. */
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
