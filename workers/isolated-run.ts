import type { MessagePort } from 'node:worker_threads';
import type { Config } from '#infra/config/config.ts';
import { extendSlot } from '#infra/mongo/mailbox/suspects.ts';
import { checkUsable, untilUsable } from '#infra/mongo/until-usable.ts';
import { LAST_BACKGROUND_MS } from '#infra/process/background.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import type { MakeActor } from './actors.ts';
import type { Kernel, RunResult } from './life.ts';
import { runCommand } from './run-command.ts';
import { openRuntime } from './runtime.ts';
import { openGroups } from './settle.ts';

/** A suspect with the isolation slot that was taken for it, as the process passes it to its thread. */
export interface IsolatedRun {
  command: CommandRef;
  /** The name under which the slot was taken. */
  workerId: string;
  until: Date;
  /** Time limit of the run, and of each of its steps after the first. */
  limitMs: number;
}

/** Report of a thread: its run has stored a step, or it has ended. */
export type RunReport = { kind: 'step' } | { kind: 'ended'; result: RunResult };

/** The parts of the process that its thread opens for itself. */
interface ThreadParts {
  config: Config;
  name: string;
  makeActor: MakeActor;
}

/**
 * Runs one suspect in this thread, with connections of its own, and reports how it ended. A run that blocks the thread or ends it leaves
 * the process unharmed, which ends the thread after the time limit. Any message of the process cuts the run short.
 */
export async function runIsolated(
  port: MessagePort,
  { command, workerId, until, limitMs }: IsolatedRun,
  { config, name, makeActor }: ThreadParts,
): Promise<void> {
  // The process serves the metrics and counts the run.
  const { deps, clock, background, publishSettled, close } = await openRuntime({ ...config, metricsPort: null }, name);
  const { mongo, log } = deps;
  const stop = new AbortController();
  const report = (one: RunReport) => port.postMessage(one);
  port.once('message', () => stop.abort(new Error('the process is stopping')));
  port.unref();

  const kernel: Kernel = {
    mongo,
    log,
    workerId,
    leaseMs: limitMs,
    ...openGroups(mongo),
    publishSettled,
    count: (_queue, result) => report({ kind: 'ended', result }),
    ran: () => undefined,
    random: Math.random,
    stop: stop.signal,
    alone: {
      until,
      async extend(held) {
        const end = await extendSlot(mongo, held, { workerId, ms: limitMs });
        report({ kind: 'step' });
        return end;
      },
    },
  };
  if (await untilUsable({ check: () => checkUsable(mongo, clock), log, stop: stop.signal }))
    await runCommand(kernel, makeActor(deps), command);
  await background.end(LAST_BACKGROUND_MS);
  await close();
}
