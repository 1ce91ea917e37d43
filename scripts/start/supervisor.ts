import { setTimeout as delay } from 'node:timers/promises';
import type { DataFolder, RecordedProcess } from '#scripts/start/supervisor/data-folder.ts';
import { type KeptProcess, keepProcess, type LaunchPlan } from '#scripts/start/supervisor/kept-process.ts';
import type { PrefixedOutput } from '#scripts/start/supervisor/prefixed-output.ts';
import { identify, signalGroup } from '#scripts/start/supervisor/processes.ts';

/** Services (MongoDB, Redis) are stopped after the processes that use them. */
export type Stage = 'service' | 'process';

export interface Supervisor {
  keep(stage: Stage, name: string, plan: LaunchPlan): KeptProcess;
  /** Stops the processes, then the services, and releases the folder. Sends SIGKILL to members that run longer than their stage may. */
  stop(): Promise<void>;
  /** Sends SIGKILL to everything at once and releases the folder. */
  kill(): void;
}

/** Time limits, counted from the beginning of the stop. The whole stop takes at most 25 s. */
export interface StopTimes {
  readonly processesMs: number;
  readonly servicesMs: number;
}

const STOP_TIMES: StopTimes = { processesMs: 22_000, servicesMs: 24_000 };

/** Keeps a set of processes alive and records them in the data folder, where the next supervisor finds orphans after a kill. */
export function createSupervisor(deps: { output: PrefixedOutput; folder: DataFolder; times?: StopTimes }): Supervisor {
  const times = deps.times ?? STOP_TIMES;
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
    const timeUp = new AbortController();
    const all = Promise.all(members.map((member) => member.stop()));
    const late = delay(Math.max(0, deadline - performance.now()), undefined, { signal: timeUp.signal }).then(
      () => {
        for (const member of members) {
          const pid = member.pid();
          if (pid === undefined) continue;
          deps.output.line(member.name, 'did not stop in time; killing it');
          signalGroup(pid, 'SIGKILL');
        }
      },
      () => undefined,
    );
    await all;
    timeUp.abort();
    await late;
  }

  async function stopAll(): Promise<void> {
    const began = performance.now();
    await stopStage('process', began + times.processesMs);
    await stopStage('service', began + times.servicesMs);
    deps.folder.release();
  }

  return {
    keep: (stage, name, plan) => {
      if (stopped !== undefined) throw new Error(`${name} cannot be started: the supervisor is stopping`);
      const member = keepProcess({ output: deps.output, changed: record }, name, plan);
      kept.push({ stage, process: member });
      record();
      return member;
    },
    stop: () => {
      stopped ??= stopAll();
      return stopped;
    },
    kill: () => {
      for (const { process } of kept) process.kill();
      deps.folder.release();
    },
  };
}
