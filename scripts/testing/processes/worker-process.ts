import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import type { Crash } from './crash-points.ts';

const MAIN = fileURLToPath(new URL('../../../workers/main.ts', import.meta.url));
const CRASH_AT = new URL('./crash-at.ts', import.meta.url).href;
const POISONED = new URL('./poisoned.ts', import.meta.url).href;

const POLL_MS = 50;
/** Time limit of `runWorkerUntil`. A worker may first have to finish commands of killed workers. */
const TIMEOUT_MS = 240_000;

/** A worker that a test has started, as a process or inside its own. */
export interface RunningWorker {
  /** Resolves with the signal that ended the worker, or with its exit code. */
  ended: Promise<string>;
  /** Returns the standard error so far. */
  said(): string;
  /** Returns the log so far. Empty unless `env` sets LOG_LEVEL. */
  logged(): string;
  /** Sends SIGTERM and waits until the worker has finished its commands. Returns the same as `ended`. */
  stop(): Promise<string>;
  /** Returns the ids of its MongoDB sessions with an open transaction. Missing for a process of its own, which does not publish them. */
  openTransactions?(): string[];
}

export interface WorkerProcess extends RunningWorker {
  child: ChildProcess;
}

/**
 * Starts a real worker process as the Procfile does. It ends with its test at the latest: a failed test must not wait for it. If `crash` is
 * set, the worker kills itself at that point of that command.
 */
export function startWorker(t: Teardown, name: string, env: NodeJS.ProcessEnv, crash?: Crash): WorkerProcess {
  if (crash === undefined) return startProcess(t, [MAIN, name], env);
  const crashEnv = { CRASH_COMMAND: crash.commandId, CRASH_POINT: `${crash.point}` };
  return startProcess(t, ['--import', CRASH_AT, MAIN, name], { ...env, ...crashEnv });
}

/** A command whose every run harms its worker; see `poisoned.ts`. */
export interface Poison {
  commandId: string;
  harm: 'block' | 'kill' | 'memory';
  /** Time for which a run beside others blocks its process. */
  blockMs?: number;
}

/** Starts a real worker process that a command harms. It ends with its test at the latest. */
export function startPoisonedWorker(t: Teardown, name: string, env: NodeJS.ProcessEnv, poison: Poison): WorkerProcess {
  const { commandId, harm, blockMs = 0 } = poison;
  const poisonEnv = { POISON_COMMAND: commandId, POISON_HARM: harm, POISON_BLOCK_MS: `${blockMs}` };
  return startProcess(t, ['--import', POISONED, MAIN, name], { ...env, ...poisonEnv });
}

function startProcess(t: Teardown, args: readonly string[], env: NodeJS.ProcessEnv): WorkerProcess {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, LOG_LEVEL: 'silent', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const killNow = () => child.kill('SIGKILL');
  process.once('exit', killNow);
  t.teardown(killNow);
  const said = collected(child.stderr);
  const logged = collected(child.stdout);
  const ended = once(child, 'close').then(([code, signal]) => {
    process.off('exit', killNow);
    return String(signal ?? code);
  });
  return {
    child,
    ended,
    said,
    logged,
    stop() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}

function collected(stream: Readable | null): () => string {
  let text = '';
  stream?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return () => text;
}

/** Runs the worker until `isDone`, then stops it. Returns how it ended; `SIGKILL` if it reached its crash point. */
export async function runWorkerUntil(worker: RunningWorker, isDone: () => Promise<boolean>): Promise<string> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  for (;;) {
    const over = await Promise.race([worker.ended, delay(POLL_MS, null)]);
    if (over !== null) return over;
    if (await isDone()) return worker.stop();
    if (performance.now() > giveUpAt) {
      throw new Error(`the worker did not finish in time: ${worker.said()}${worker.logged()}`);
    }
  }
}
