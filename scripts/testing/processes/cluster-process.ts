import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '#testing/until.ts';

export interface ProcessPlan {
  name: string;
  port: number | undefined;
  cwd: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Returns whether a started process with this output is ready. */
  isReady(output: string): boolean | Promise<boolean>;
}

/** One process of a cluster, which may be killed and started again. */
export interface ClusterProcess {
  name: string;
  port: number | undefined;
  start(): Promise<void>;
  /** Waits for the end of the process and returns its exit code; null if a signal ended or only paused it. */
  kill(signal: NodeJS.Signals): Promise<number | null>;
  end(): Promise<number | null>;
  pid(): number | undefined;
  output(): string;
  /** Returns the deaths that `kill` did not cause, with the last output of each. */
  crashes(): string[];
}

/** One run of a program: from its start to its exit. */
export interface Run {
  pid: number | undefined;
  /** Resolves when the program has begun; a process of its own begins at once. */
  begun?: Promise<void>;
  /** The signal that ends it as fast as possible. */
  fastest: NodeJS.Signals;
  signal(signal: NodeJS.Signals): void;
}

/** Receives the output and the exit of a run. */
export interface Observer {
  say(text: string): void;
  exit(code: number | null, signal?: NodeJS.Signals | null): void;
}

/** Longest start of a process; generous, because other tests share the machine. */
const START_TIMEOUT_MS = 180_000;
/** Polling more often would slow the start, because each poll may be a request. */
const POLL_MS = 20;
const isPause = (signal: NodeJS.Signals) => signal === 'SIGSTOP' || signal === 'SIGCONT';

/** Returns a process whose runs `open` begins. */
export function planRuns(
  { name, port, isReady }: Pick<ProcessPlan, 'name' | 'port' | 'isReady'>,
  open: (observer: Observer) => Run,
): ClusterProcess {
  const said: string[] = [];
  const crashes: string[] = [];
  let run: (Run & { gone: Promise<number | null> }) | undefined;
  let wanted = false;

  async function start(): Promise<void> {
    if (run !== undefined) return;
    const { promise: gone, resolve } = Promise.withResolvers<number | null>();
    const since = said.length;
    const output = () => said.slice(since).join('');
    wanted = false;
    const exit: Observer['exit'] = (code, signal) => {
      run = undefined;
      if (!wanted) crashes.push(`${name} (${signal ?? code}): ${output().slice(-1_000)}`);
      resolve(code);
    };
    const started = { ...open({ say: (text) => void said.push(text), exit }), gone };
    run = started;
    await started.begun;
    const hasBegun = async () => {
      if (await isReady(output())) return true;
      if (run !== started) throw new Error(`${name} ended while starting:\n${output()}`);
      await delay(POLL_MS);
      return false;
    };
    await until(`${name} is ready`, hasBegun, START_TIMEOUT_MS).catch((cause: unknown) => {
      throw new Error(`${name} did not become ready:\n${output().slice(-3_000)}`, { cause });
    });
  }

  async function kill(signal = run?.fastest): Promise<number | null> {
    if (run === undefined || signal === undefined) return null;
    const { gone } = run;
    wanted ||= !isPause(signal);
    run.signal(signal);
    return isPause(signal) ? null : gone;
  }

  return {
    name,
    port,
    start,
    kill,
    end: () => kill(),
    pid: () => run?.pid,
    output: () => said.join(''),
    crashes: () => crashes,
  };
}

/** Returns a process of its own that `start` starts. */
export function planProcess(plan: ProcessPlan): ClusterProcess {
  return planRuns(plan, ({ say, exit }) => {
    const { child, ended } = spawnNode(plan.args, { cwd: plan.cwd, env: plan.env });
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', say);
    void ended.then(([code, signal]) => exit(code, signal));
    const signal = (name: NodeJS.Signals) => {
      child.kill(name);
      // A stopped process receives only SIGKILL until SIGCONT resumes it.
      if (!isPause(name) && name !== 'SIGKILL') child.kill('SIGCONT');
    };
    return { pid: child.pid, fastest: 'SIGKILL', signal };
  });
}

type Ended = [code: number | null, signal: NodeJS.Signals | null];

/** Starts this Node with arguments. It is killed when this process exits. `ended` resolves after its last output. */
export function spawnNode(args: readonly string[], options: { cwd?: string; env: NodeJS.ProcessEnv }) {
  const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const killNow = () => child.kill('SIGKILL');
  process.once('exit', killNow);
  const ended = once(child, 'close').then((end) => {
    process.off('exit', killNow);
    return end as Ended;
  });
  return { child, ended };
}
