import pLimit from 'p-limit';
import { dueCommands } from '../shared/infra/mongo/mailbox/due-commands.ts';
import { endHolderSession } from '../shared/infra/mongo/mailbox/holder-session.ts';
import type { Queue } from '../shared/kernel/command.ts';
import type { Actor } from './actor.ts';
import type { Ending, Kernel } from './kernel.ts';
import { runCommand } from './run-command.ts';

/** The poll and the slots of one worker process. */
export interface Worker {
  /** Runs the command now if it can be claimed: what a ring asks for. Resolves when the run has ended. */
  knock(queue: Queue, commandId: string): Promise<Ending>;
  /** Takes up due commands of every queue until none is left to take; runs may still be going when it resolves. */
  poll(): Promise<void>;
  /** Resolves when nothing runs. */
  idle(): Promise<void>;
  busy(): string[];
  /** No new claims; resolves when the last run has ended. */
  drain(): Promise<void>;
}

export interface WorkerOptions {
  concurrency: number;
  pollMs: number;
  now: () => number;
}

/**
 * Rings and the poll share the slots: a process never runs more than `concurrency` commands, nor one command twice at
 * a time. The poll is what keeps the promise that a lost ring costs at most one interval.
 */
export function openWorker(kernel: Kernel, actor: Actor, options: WorkerOptions): Worker {
  const slots = pLimit(options.concurrency);
  const running = new Map<string, Promise<Ending>>();
  let draining = false;

  function knock(queue: Queue, id: string): Promise<Ending> {
    const already = running.get(id);
    if (already !== undefined) return already;
    if (draining) return Promise.resolve('not-ours');
    const run = slots(() => (draining ? Promise.resolve<Ending>('not-ours') : runCommand(kernel, actor, queue, id)));
    running.set(id, run);
    return run.finally(() => running.delete(id));
  }

  async function poll(): Promise<void> {
    await Promise.all(actor.queues.map((queue) => pollQueue(queue)));
  }

  function warnOfSession(commandId: string) {
    return (err: unknown) =>
      kernel.log.warn({ err, commandId, actor: actor.name }, 'the session of a lost holder could not be ended');
  }

  async function pollQueue(queue: Queue): Promise<void> {
    const notOurs = new Set<string>();
    while (!draining) {
      const free = options.concurrency - slots.activeCount - slots.pendingCount;
      if (free <= 0) {
        // Full. One slow command must not hold up the rest: go on as soon as any slot is free.
        await Promise.race(running.values());
        continue;
      }
      const due = await dueCommands(kernel.mongo, queue, options.now(), options.concurrency * 2 + notOurs.size);
      const fresh = due.filter(({ _id }) => !running.has(_id) && !notOurs.has(_id)).slice(0, free);
      if (fresh.length === 0) return;
      const runs = fresh.map(async ({ _id: id, session }) => {
        // Its holder died or was paused: a transaction that it left open would hold up the claim.
        if (session !== null) await endHolderSession(kernel.mongo, session).catch(warnOfSession(id));
        // Leased by another, or our clock is ahead of MongoDB's: not again in this turn.
        if ((await knock(queue, id)) === 'not-ours') notOurs.add(id);
      });
      await Promise.race(runs);
    }
  }

  // One for each queue: a backlog of one, whose turn never ends, must not keep the others from being looked at.
  const loops = actor.queues.map((queue) =>
    startLoop(options.pollMs, () =>
      pollQueue(queue).catch((err: unknown) => kernel.log.warn({ err, actor: actor.name, queue }, 'poll failed')),
    ),
  );

  return {
    knock,
    poll,
    idle: async () => void (await Promise.allSettled([...running.values()])),
    busy: () => [...running.keys()],
    async drain() {
      draining = true;
      for (const loop of loops) loop.stop();
      await Promise.allSettled([...running.values()]);
    },
  };
}

/** Runs `turn` each `everyMs`, never twice at a time: a turn that takes longer is followed at once by the next. */
function startLoop(everyMs: number, turn: () => Promise<unknown>): { stop: () => void } {
  let timer: NodeJS.Timeout;
  let stopped = false;
  async function next(): Promise<void> {
    const began = performance.now();
    await turn();
    if (!stopped) timer = setTimeout(next, Math.max(0, everyMs - (performance.now() - began)));
  }
  timer = setTimeout(next, 0);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
