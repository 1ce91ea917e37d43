import pLimit, { type LimitFunction } from 'p-limit';
import { dueCommands, endHolderSession } from '#infra/mongo/mailbox/claim.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { type Actor, queuesOf } from './actor.ts';
import type { Ending, Kernel } from './life.ts';
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
  /** Of each queue. */
  concurrency: number;
  pollMs: number;
  now: () => number;
}

/** The slots of one queue, and what holds or awaits one. */
interface Lane {
  slots: LimitFunction;
  running: Map<string, Promise<Ending>>;
}

/**
 * Rings and the poll of a queue share its slots: a process never runs more than `concurrency` commands of one queue, nor
 * one command twice at a time. Each queue has slots of its own, so that commands which all hang (their receiver does) hold
 * up nothing but their like. The poll is what keeps the promise that a lost ring costs at most one interval.
 */
export function openWorker(kernel: Kernel, actor: Actor, options: WorkerOptions): Worker {
  const queues = queuesOf(actor);
  const lanes = new Map<Queue, Lane>();
  let draining = false;

  function laneOf(queue: Queue): Lane {
    const lane = lanes.get(queue) ?? { slots: pLimit(options.concurrency), running: new Map() };
    lanes.set(queue, lane);
    return lane;
  }

  function runs(): Promise<Ending>[] {
    return [...lanes.values()].flatMap(({ running }) => [...running.values()]);
  }

  function knock(queue: Queue, id: string): Promise<Ending> {
    const { slots, running } = laneOf(queue);
    const already = running.get(id);
    if (already !== undefined) return already;
    if (draining) return Promise.resolve('not-ours');
    const run = slots(() => (draining ? Promise.resolve<Ending>('not-ours') : runCommand(kernel, actor, queue, id)));
    running.set(id, run);
    return run.finally(() => running.delete(id));
  }

  async function poll(): Promise<void> {
    await Promise.all(queues.map((queue) => pollQueue(queue)));
  }

  function warnOfSession(commandId: string) {
    return (err: unknown) =>
      kernel.log.warn({ err, commandId, actor: actor.name }, 'the session of a lost holder could not be ended');
  }

  async function pollQueue(queue: Queue): Promise<void> {
    const { slots, running } = laneOf(queue);
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
      const taken = fresh.map(async ({ _id: id, session }) => {
        // Its holder died or was paused: a transaction that it left open would hold up the claim.
        if (session !== null) await endHolderSession(kernel.mongo, session).catch(warnOfSession(id));
        // Leased by another, or our clock is ahead of MongoDB's: not again in this turn.
        if ((await knock(queue, id)) === 'not-ours') notOurs.add(id);
      });
      await Promise.race(taken);
    }
  }

  // One for each queue: a backlog of one, whose turn never ends, must not keep the others from being looked at.
  const loops = queues.map((queue) =>
    startLoop(options.pollMs, () =>
      pollQueue(queue).catch((err: unknown) => kernel.log.warn({ err, actor: actor.name, queue }, 'poll failed')),
    ),
  );

  return {
    knock,
    poll,
    idle: async () => void (await Promise.allSettled(runs())),
    busy: () => [...lanes.values()].flatMap(({ running }) => [...running.keys()]),
    async drain() {
      draining = true;
      for (const loop of loops) loop.stop();
      await Promise.allSettled(runs());
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
