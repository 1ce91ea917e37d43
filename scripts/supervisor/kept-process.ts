import { type ChildProcess, spawn } from 'node:child_process';
import { signalGroup } from './data-folder.ts';
import type { PrefixedOutput } from './prefixed-output.ts';
import { afterDeath, FIRST_LIFE, type RestartHistory } from './restart-backoff.ts';

export interface LaunchPlan {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

export interface KeptProcess {
  readonly name: string;
  pid(): number | undefined;
  /** Ends the restarts and sends SIGTERM to the process group. Resolves when the process has ended. */
  stop(): Promise<void>;
  /** Ends the restarts and sends SIGKILL to the process group. */
  kill(): void;
}

/** Starts a process and restarts it each time it dies, with a backoff, until it is stopped. */
export function keepProcess(
  deps: { output: PrefixedOutput; changed: () => void },
  name: string,
  plan: LaunchPlan,
): KeptProcess {
  let child: ChildProcess | undefined;
  let history: RestartHistory = FIRST_LIFE;
  let restart: NodeJS.Timeout | undefined;
  let stopping = false;
  const gone = Promise.withResolvers<void>();

  function launch(): void {
    const born = performance.now();
    // In its own process group, so that Ctrl-C in the terminal reaches only the supervisor, which stops everything in order.
    const running = spawn(plan.command, plan.args, {
      env: plan.env,
      cwd: plan.cwd,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = running;
    for (const source of [running.stdout, running.stderr]) {
      const sink = deps.output.stream(name);
      source.on('data', (chunk: Buffer) => sink.write(chunk));
      source.on('end', () => sink.end());
    }
    let over = false;
    const died = (how: string) => {
      if (over) return;
      over = true;
      child = undefined;
      // Kill its children too: a surviving child would use the port or the files of the restarted process.
      if (running.pid !== undefined) signalGroup(running.pid, 'SIGKILL');
      deps.changed();
      if (stopping) {
        gone.resolve();
        return;
      }
      const next = afterDeath(history, performance.now() - born);
      history = next.history;
      deps.output.line(name, `${how}; starting it again in ${next.delayMs / 1_000} s`);
      restart = setTimeout(launch, next.delayMs);
    };
    running.on('error', (error) => died(`cannot be started: ${error.message}`));
    running.on('exit', (code, signal) => died(signal === null ? `exited with code ${code}` : `was ended by ${signal}`));
    deps.changed();
  }

  function endRestarts(): boolean {
    stopping = true;
    clearTimeout(restart);
    if (child === undefined) gone.resolve();
    return child === undefined;
  }

  launch();
  return {
    name,
    pid: () => child?.pid,
    stop: () => {
      if (!endRestarts() && child?.pid !== undefined) signalGroup(child.pid, 'SIGTERM');
      return gone.promise;
    },
    kill: () => {
      if (!endRestarts() && child?.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
    },
  };
}
