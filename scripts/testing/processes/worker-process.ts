import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { spawnNode } from './cluster-process.ts';
import type { Crash } from './crash-points.ts';

const MAIN = fileURLToPath(new URL('../../../workers/main.ts', import.meta.url));
const HARM = new URL('./harm.ts', import.meta.url).href;

const POLL_MS = 50;
/** Time limit of `runWorkerUntil`. A worker may first have to finish commands of killed workers. */
const TIMEOUT_MS = 240_000;

/** A worker that a test has started, as a process or inside its own. */
export interface RunningWorker {
  /** Resolves with the signal that ended the worker, or with its exit code. */
  ended: Promise<string>;
  said(): string;
  /** Returns the log so far. Empty unless `env` sets LOG_LEVEL. */
  logged(): string;
  /** Sends SIGTERM and waits until the worker has finished its commands. Returns the same as `ended`. */
  stop(): Promise<string>;
  /** Returns the ids of its MongoDB sessions with an open transaction. Missing for a process of its own, which does not publish them. */
  openTransactions?(): string[];
}

/** A command whose every run harms its worker as soon as it is claimed. */
export interface Poison {
  commandId: string;
  /**
   * `block`: blocks the event loop of a process for `blockMs`, and that of a thread for ever. `kill`: kills the process with SIGKILL.
   * `memory`: kills a process, because none may be left without memory here, and allocates in a thread until it has none.
   */
  harm: 'block' | 'kill' | 'memory';
  blockMs?: number;
}

/**
 * Starts a real worker process as the Procfile does. It ends with its test at the latest: a failed test must not wait for it. `harm` is a
 * command that harms it: at one point of its run the worker kills itself, or every run is poison.
 */
export function startWorker(t: Teardown, name: string, env: NodeJS.ProcessEnv, harm?: Crash | Poison) {
  const ownEnv = { ...process.env, LOG_LEVEL: 'silent', ...env };
  const { child, ended } =
    harm === undefined
      ? spawnNode([MAIN, name], { env: ownEnv })
      : spawnNode(['--import', HARM, MAIN, name], { env: { ...ownEnv, TEST_HARM: JSON.stringify(harm) } });
  t.teardown(() => child.kill('SIGKILL'));
  let [said, logged] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text) => (said += text));
  child.stdout.setEncoding('utf8').on('data', (text) => (logged += text));
  const how = ended.then(([code, signal]) => String(signal ?? code));
  return {
    child,
    ended: how,
    said: () => said,
    logged: () => logged,
    stop() {
      child.kill('SIGTERM');
      return how;
    },
  } satisfies RunningWorker & { child: unknown };
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
