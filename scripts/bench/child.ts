import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** A process of the product or of a reference, which runs until `stop`. */
export interface Child {
  pid: number;
  /** Resolves when the process has ended. */
  stop(): Promise<void>;
}

export interface ChildPlan {
  name: string;
  /** Script and its arguments, the script relative to the project. */
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Text in its output that announces that it is ready. */
  readyWhen: string;
  folder: string;
}

const ROOT = path.resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 20_000;
const STOP_MS = 5_000;
const POLL_MS = 25;

/**
 * Starts a Node process and waits until it is ready. Its output goes to a file: with a pipe, the bench would read log lines while it
 * measures.
 * @throws Error with the end of the output if the process dies or is not ready in time
 */
export async function startChild(plan: ChildPlan): Promise<Child> {
  const { name, args, env, readyWhen, folder } = plan;
  const file = path.join(folder, `${name}-${process.hrtime.bigint()}.log`);
  const output = openSync(file, 'a');
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', output, output] });
  closeSync(output);
  const killIt = () => child.kill('SIGKILL');
  process.once('exit', killIt);
  let over = false;
  const gone = new Promise<void>((resolve) => {
    const end = () => {
      over = true;
      process.off('exit', killIt);
      resolve();
    };
    child.once('exit', end);
    child.once('error', end);
  });

  async function stop(): Promise<void> {
    if (!over) child.kill('SIGTERM');
    const timer = setTimeout(killIt, STOP_MS);
    await gone;
    clearTimeout(timer);
  }

  const giveUpAt = performance.now() + TIMEOUT_MS;
  while (!readFileSync(file, 'utf8').includes(readyWhen)) {
    if (over || performance.now() > giveUpAt) {
      await stop();
      throw new Error(`${name} did not become ready:\n${readFileSync(file, 'utf8').slice(-2_000)}`);
    }
    await delay(POLL_MS);
  }
  return { pid: child.pid ?? 0, stop };
}
