import { type ChildProcess, spawn } from 'node:child_process';
import type { PrefixedOutput } from '#scripts/start/supervisor/prefixed-output.ts';
import { type DataFolder, identify, type RecordedProcess, signalGroup } from '#scripts/start/supervisor/processes.ts';

/** Services (MongoDB, Redis) are stopped after the processes that use them. */
type Stage = 'service' | 'process';

export type Supervisor = ReturnType<typeof createSupervisor>;

/** Time limits, counted from the beginning of the stop. The whole stop takes at most 25 s. */
const STOP_TIMES = { processesMs: 22_000, servicesMs: 24_000 };

/** Keeps a set of processes alive and records them in the data folder, where the next supervisor finds orphans after a kill. */
export function createSupervisor(deps: { output: PrefixedOutput; folder: DataFolder; times?: typeof STOP_TIMES }) {
  const { times = STOP_TIMES } = deps;
  const kept: { stage: Stage; process: KeptProcess }[] = [];
  let stopped: Promise<void> | undefined;

  function record(): void {
    const running: RecordedProcess[] = [];
    for (const { process } of kept) {
      const pid = process.pid();
      const identity = pid === undefined ? undefined : identify(pid);
      if (identity !== undefined) running.push({ name: process.name, ...identity });
    }
    deps.folder.record(running);
  }

  async function stopStage(stage: Stage, deadline: number): Promise<void> {
    const members = kept.filter((member) => member.stage === stage).map((member) => member.process);
    const killLate = () => {
      for (const { name, pid } of members) {
        const late = pid();
        if (late === undefined) continue;
        deps.output.line(name, 'did not stop in time; killing it');
        signalGroup(late, 'SIGKILL');
      }
    };
    const timer = setTimeout(killLate, Math.max(0, deadline - performance.now()));
    await Promise.all(members.map((member) => member.stop()));
    clearTimeout(timer);
  }

  async function stopAll(): Promise<void> {
    const began = performance.now();
    await stopStage('process', began + times.processesMs);
    await stopStage('service', began + times.servicesMs);
    deps.folder.release();
  }

  return {
    keep(stage: Stage, name: string, plan: LaunchPlan): KeptProcess {
      if (stopped !== undefined) throw new Error(`${name} cannot be started: the supervisor is stopping`);
      const member = keepProcess({ output: deps.output, changed: record }, name, plan);
      kept.push({ stage, process: member });
      member.launch();
      return member;
    },
    /** Stops the processes, then the services, and releases the folder. Sends SIGKILL to members that run longer than their stage may. */
    stop(): Promise<void> {
      stopped ??= stopAll();
      return stopped;
    },
    kill(): void {
      for (const { process } of kept) process.kill();
      deps.folder.release();
    },
  };
}

export interface LaunchPlan {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

type KeptProcess = ReturnType<typeof keepProcess>;

/** Starts a process and restarts it each time it dies, with a backoff, until it is stopped. */
function keepProcess(deps: { output: PrefixedOutput; changed: () => void }, name: string, plan: LaunchPlan) {
  let child: ChildProcess | undefined;
  let shortLives = 0;
  let restart: NodeJS.Timeout | undefined;
  let stopping = false;
  const gone = Promise.withResolvers<void>();

  function launch(): void {
    const born = performance.now();
    const running = spawnInGroup(deps.output, name, plan);
    child = running;
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
      const next = afterDeath(shortLives, performance.now() - born);
      shortLives = next.shortLives;
      deps.output.line(name, `${how}; starting it again in ${next.delayMs / 1_000} s`);
      restart = setTimeout(launch, next.delayMs);
    };
    running.on('error', (error) => died(`cannot be started: ${error.message}`));
    running.on('exit', (code, signal) => died(signal === null ? `exited with code ${code}` : `was ended by ${signal}`));
    deps.changed();
  }

  function end(signal: NodeJS.Signals): void {
    stopping = true;
    clearTimeout(restart);
    if (child === undefined) gone.resolve();
    else if (child.pid !== undefined) signalGroup(child.pid, signal);
  }

  return {
    name,
    launch,
    pid: () => child?.pid,
    /** Ends the restarts and sends SIGTERM to the process group. Resolves when the process has ended. */
    stop() {
      end('SIGTERM');
      return gone.promise;
    },
    /** Ends the restarts and sends SIGKILL to the process group. */
    kill: () => end('SIGKILL'),
  };
}

const SHORT_LIFE_MS = 5_000;
const SETTLED_LIFE_MS = 60_000;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 30_000;

/**
 * Returns the delay before the restart of a process that lived `livedMs` after `shortLives` consecutive lives of less than 5 s, and the new
 * number of these. A process that lived 5 s or longer restarts within a second. For repeated early deaths the delay grows (1, 2, 4 … 30 s),
 * which spares the log and the machine.
 */
export function afterDeath(shortLives: number, livedMs: number): { shortLives: number; delayMs: number } {
  const isShort = livedMs < SHORT_LIFE_MS;
  const before = isShort ? shortLives : livedMs < SETTLED_LIFE_MS ? Math.min(shortLives, 1) : 0;
  const delayMs = before === 0 ? FIRST_DELAY_MS : Math.min(1_000 * 2 ** Math.min(before - 1, 10), MAX_DELAY_MS);
  return { shortLives: isShort ? before + 1 : before, delayMs };
}

/** Time for a stopped command to end before SIGKILL. The rest of the 25 s is for the services. */
const ONCE_MS = 20_000;

/** Runs a command to its end. @throws Error if it fails or if `signal` aborts it */
export async function runOnce(
  output: PrefixedOutput,
  name: string,
  plan: LaunchPlan,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const child = spawnInGroup(output, name, plan);
  let timer: NodeJS.Timeout | undefined;
  const end = () => {
    const { pid } = child;
    if (pid === undefined) return;
    signalGroup(pid, 'SIGTERM');
    timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), ONCE_MS);
  };
  signal.addEventListener('abort', end, { once: true });
  try {
    const how = await new Promise<string | undefined>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, by) => resolve(code === 0 ? undefined : (by ?? `code ${code}`)));
    });
    if (how !== undefined) throw new Error(`${name} ended with ${how}`);
  } finally {
    signal.removeEventListener('abort', end);
    clearTimeout(timer);
  }
}

/** Starts a process in a group of its own, so that Ctrl-C in the terminal reaches only the supervisor, which stops all in order. */
function spawnInGroup(output: PrefixedOutput, name: string, { command, args, env, cwd }: LaunchPlan) {
  const child = spawn(command, args, { env, cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const source of [child.stdout, child.stderr]) {
    const sink = output.stream(name);
    source.on('data', (chunk: Buffer) => sink.write(chunk));
    source.on('end', () => sink.end());
  }
  return child;
}
