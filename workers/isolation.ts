import { randomUUID } from 'node:crypto';
import { Worker as Thread } from 'node:worker_threads';
import { endLease } from '#infra/mongo/mailbox/settle.ts';
import { freeSlot, nextSuspect, takeSlot } from '#infra/mongo/mailbox/suspects.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type Actor, queuesOf } from './actor.ts';
import type { IsolatedRun, RunReport } from './isolated-run.ts';
import type { Kernel, RunResult } from './life.ts';
import { startLoop } from './loop.ts';

/** Interval at which a worker process polls for suspects of its queues (ms). */
const POLL_MS = 5 * SECOND;
/** Time limit of a run alone, and of each of its steps after the first, in leases of its actor. With the default lease: a minute. */
const LIMIT_LEASES = 6;
/** Memory for old objects of the thread, in MB. A run that needs more ends the thread, and not the process. */
const THREAD_MB = 256;

/** The suspects that this process runs. */
export interface Isolation {
  /** Takes no further suspect. Resolves when the run in progress has ended. */
  drain(): Promise<void>;
}

/**
 * Runs suspects of the actor's queues, one at a time in the whole cluster: this process takes the isolation slot, and runs the suspect in
 * a thread. The event loop of the process stays free for its other commands, whatever the run does. A thread that is not done within
 * the time limit is ended, and its command then has lapsed for the third time.
 */
export function openIsolation(
  kernel: Kernel,
  { name, actor, env }: { name: string; actor: Actor; env?: NodeJS.ProcessEnv | undefined },
): Isolation {
  const { mongo, log } = kernel;
  const limitMs = kernel.leaseMs * LIMIT_LEASES;
  const [first, ...others] = queuesOf(actor);
  let draining = false;
  let turn: Promise<void> = Promise.resolve();

  /** Returns true if another suspect may be run at once. */
  async function runNext(): Promise<boolean> {
    const command = first === undefined ? null : await nextSuspect(mongo, [first, ...others]);
    if (command === null || draining) return false;
    const workerId = `${kernel.workerId}:${randomUUID().slice(0, 8)}`;
    const until = await takeSlot(mongo, command, { workerId, ms: limitMs });
    if (until === null) return false;
    const about = { commandId: command._id, queue: command.queue };
    log.warn({ ...about, until }, 'suspect started alone in a thread');
    const result = await inThread({ command, workerId, until, limitMs }).catch((err: unknown) => {
      log.error({ ...about, err }, 'thread for a suspect could not be started; suspects wait');
      return null;
    });
    // The thread is gone. Without an outcome of it, the next claim counts the lapse at once.
    await endLease(mongo, command, { workerId });
    await freeSlot(mongo, { workerId });
    return result !== null && result !== 'not-ours';
  }

  /** Runs the suspect in a thread. Resolves when the thread has ended: with how its run ended, or null if it did not. */
  async function inThread(run: IsolatedRun): Promise<RunResult | null> {
    const about = { commandId: run.command._id, queue: run.command.queue };
    const thread = new Thread(new URL('./main.ts', import.meta.url), {
      argv: [name],
      workerData: run,
      resourceLimits: { maxOldGenerationSizeMb: THREAD_MB },
      ...(env === undefined ? {} : { env }),
    });
    const ended = Promise.withResolvers<void>();
    let result: RunResult | null = null;
    const timer = setTimeout(() => {
      log.warn({ ...about, limitMs }, 'suspect reached its time limit; its thread ended');
      void thread.terminate();
    }, limitMs);
    const cutShort = () => thread.postMessage('stop');
    kernel.stop.addEventListener('abort', cutShort);
    thread.on('message', (report: RunReport) => {
      if (report.kind === 'step') timer.refresh();
      else result = report.result;
    });
    thread.on('error', (err) =>
      log.warn({ ...about, err }, 'suspect failed its thread; command is dead or runs alone again'),
    );
    thread.on('exit', () => ended.resolve());
    await ended.promise;
    clearTimeout(timer);
    kernel.stop.removeEventListener('abort', cutShort);
    if (result !== null) kernel.count(run.command.queue, result);
    return result;
  }

  async function runAll(): Promise<void> {
    try {
      while (!draining && (await runNext()));
    } catch (err) {
      log.warn({ err, actor: actor.name }, 'poll for suspects failed');
    }
  }

  const loop = startLoop({ everyMs: POLL_MS, phase: kernel.random() }, () => {
    turn = runAll();
    return turn;
  });

  return {
    async drain() {
      draining = true;
      loop.stop();
      await turn;
    },
  };
}
