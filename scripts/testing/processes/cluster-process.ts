import { type ChildProcess, spawn } from 'node:child_process';

export interface ProcessPlan {
  name: string;
  port: number | undefined;
  cwd: string;
  /** Arguments of this Node. */
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Resolves when the process is ready. @throws Error if it dies first */
  untilReady(output: () => string, hasDied: () => boolean): Promise<void>;
}

/** One process of a cluster, which may be killed and started again. */
export interface ClusterProcess {
  name: string;
  port: number | undefined;
  start(): Promise<void>;
  /** Waits for the end of the process and returns its exit code; null if a signal ended or only paused it. */
  kill(signal: NodeJS.Signals): Promise<number | null>;
  /** Ends the process as fast as possible and waits for its end. */
  end(): Promise<number | null>;
  pid(): number | undefined;
  /** Returns the output of every run so far. */
  output(): string;
  /** Returns the deaths that `kill` did not cause, with the last output of each. */
  crashes(): string[];
}

const PASSING: readonly NodeJS.Signals[] = ['SIGSTOP', 'SIGCONT'];

/** Returns a process that `start` starts. A running process is killed when this process exits. */
export function planProcess(plan: ProcessPlan): ClusterProcess {
  const said: string[] = [];
  const crashes: string[] = [];
  let child: ChildProcess | undefined;
  let gone: Promise<number | null> = Promise.resolve(null);
  let wanted = false;

  async function start(): Promise<void> {
    if (child !== undefined) return;
    const started = spawn(process.execPath, plan.args, {
      cwd: plan.cwd,
      env: plan.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    wanted = false;
    const since = said.length;
    const killNow = () => started.kill('SIGKILL');
    process.once('exit', killNow);
    for (const stream of [started.stdout, started.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
    }
    gone = new Promise((resolve) => {
      started.once('close', (code, signal) => {
        process.off('exit', killNow);
        child = undefined;
        const last = said.slice(since).join('').slice(-1_000);
        if (!wanted) crashes.push(`${plan.name} (${signal ?? code}): ${last}`);
        resolve(code);
      });
    });
    await plan.untilReady(
      () => said.slice(since).join(''),
      () => child !== started,
    );
  }

  async function kill(signal: NodeJS.Signals): Promise<number | null> {
    if (child === undefined) return null;
    if (PASSING.includes(signal)) {
      child.kill(signal);
      return null;
    }
    wanted = true;
    child.kill(signal);
    // A stopped process receives only SIGKILL until SIGCONT resumes it.
    if (signal !== 'SIGKILL') child.kill('SIGCONT');
    return gone;
  }

  return {
    name: plan.name,
    port: plan.port,
    start,
    kill,
    end: () => kill('SIGKILL'),
    pid: () => child?.pid,
    output: () => said.join(''),
    crashes: () => crashes,
  };
}
