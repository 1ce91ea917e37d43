import { type DueCommand, dueCommands, openDueReader } from '#infra/mongo/mailbox/due.ts';
import { type CommandRef, type Queue, TURN_QUEUES } from '#shared/kernel/command.ts';
import { type Actor, queuesOf } from './actor.ts';
import type { Kernel, RunResult } from './life.ts';
import { startLoop } from './loop.ts';
import { byAge, byTurns } from './order.ts';
import { type Lane, pollQueue, WINDOW } from './poll.ts';
import { runCommand } from './run-command.ts';
import { openSlots } from './slots.ts';
import { openYielding } from './yielding.ts';

/** The poll and the slots of one worker process. */
export interface Worker {
  /** Runs a command as soon as a slot is free, if it can be claimed; called for each ring. Resolves when the run has ended. */
  tryRun(command: CommandRef): Promise<RunResult>;
  /** Starts runs of due commands of every queue until no more can be claimed. Runs may still be in progress when it resolves. */
  poll(): Promise<void>;
  /** Resolves when the runs of this moment have ended. */
  idle(): Promise<void>;
  /** Returns the ids of commands that are running or wait for a slot. */
  busy(): string[];
  /** Returns the slots of each queue: how many there are, and how many run a command. */
  slots(): { queue: Queue; total: number; busy: number }[];
  /** Stops claiming. Resolves when the last run has ended. */
  drain(): Promise<void>;
}

export interface WorkerOptions {
  /** Slots of each queue. */
  concurrency: number;
  pollMs: number;
  now: () => number;
  /** True if one statement reads all queues. Default false: one each, because a stand-in for MongoDB would scan the mailbox for it. */
  pollsTogether?: boolean;
}

/**
 * Opens the worker of an actor and starts its poll loop.
 *
 * Rings and the poll of a queue share its slots. A process never runs more than `concurrency` commands of one queue at a time,
 * and never one command twice at a time. Each queue has its own slots, so a hanging receiver blocks only its own queue. Because
 * of the poll, a lost ring delays a command by at most one interval.
 */
export function openWorker(kernel: Kernel, actor: Actor, options: WorkerOptions): Worker {
  const lanes = new Map(queuesOf(actor).map((queue) => [queue, openLane(queue)]));
  const polling = new Set<Lane>();
  let draining = false;
  const { yieldsTo } = actor;
  const yields =
    yieldsTo && openYielding({ isDue: () => isDue(kernel, yieldsTo, options.now()), isDraining: () => draining });

  function openLane(queue: Queue): Lane {
    const slots = openSlots(options.concurrency);
    const run = async (command: CommandRef) => {
      await yields?.();
      return draining ? 'not-ours' : runCommand(kernel, actor, command);
    };
    const turnQueue = TURN_QUEUES.find((one) => one === queue);
    const share = turnQueue === undefined ? undefined : actor.turns?.[turnQueue];
    if (turnQueue === undefined || share === undefined) {
      const readDue = (now: number, limit: number) => dueCommands(kernel.mongo, [queue], now, limit);
      return { queue, slots, readDue, order: byAge({ slots, run }), probed: null };
    }
    const most = share === 'ALL' ? options.concurrency : Math.ceil(options.concurrency / 2);
    const readDue = openDueReader(kernel.mongo, turnQueue);
    const readNext = () => readDue(options.now(), WINDOW).catch(() => []);
    return { queue, slots, readDue, order: byTurns({ slots, run, most, readDue: readNext }), probed: null };
  }

  function runs(): Promise<RunResult>[] {
    return [...lanes.values()].flatMap(({ slots }) => slots.runs());
  }

  /**
   * Reads the due commands of several queues at once: through a router, each statement of a poll goes to every shard. Returns the queues that
   * have any, with these commands. `due` is null if the queue must read for itself: its slots are taken, or not all were listed.
   */
  async function readTogether(asked: readonly Lane[]): Promise<{ lane: Lane; due: DueCommand[] | null }[]> {
    if (options.pollsTogether !== true) return asked.map((lane) => ({ lane, due: null }));
    const [open, full] = [
      asked.filter(({ slots }) => slots.free() > 0),
      asked.filter(({ slots }) => slots.free() <= 0),
    ];
    const found = full.map((lane) => ({ lane, due: null as DueCommand[] | null }));
    const [first, ...others] = open.map(({ queue }) => queue);
    if (first === undefined || draining) return found;
    const read = await dueCommands(kernel.mongo, [first, ...others], options.now(), WINDOW);
    // A backlog of one queue fills the window, and would hide the commands of the others.
    const isWhole = others.length === 0 || read.length < WINDOW;
    for (const lane of open) {
      const due = read.filter(({ queue }) => queue === lane.queue);
      if (!isWhole) found.push({ lane, due: null });
      else if (due.length > 0) found.push({ lane, due });
    }
    return found;
  }

  /**
   * Polls a queue, which the loop then leaves out. Of two polls at once, one may find the share of an organization taken by the other, and end
   * before the commands that it was to start.
   */
  async function pollAlone(lane: Lane, due: DueCommand[] | null): Promise<void> {
    const { pollMs, now } = options;
    polling.add(lane);
    const poll = pollQueue(kernel, lane, due, { actor: actor.name, pollMs, now, isDraining: () => draining });
    await poll.finally(() => polling.delete(lane));
  }

  /** Polls the queues whose poll is not in progress. The poll of a queue with a constant backlog never ends, so it is not awaited. */
  async function pollOpen(): Promise<void> {
    const asked = [...lanes.values()].filter((lane) => !polling.has(lane));
    const warn = (about: object) => (err: unknown) =>
      kernel.log.warn({ err, actor: actor.name, ...about }, 'poll failed');
    const queues = asked.map(({ queue }) => queue);
    const found = asked.length === 0 ? [] : await readTogether(asked).catch(warn({ queues }));
    for (const { lane, due } of found ?? []) void pollAlone(lane, due).catch(warn({ queue: lane.queue }));
  }
  const loop = startLoop({ everyMs: options.pollMs, phase: kernel.random() }, pollOpen);

  return {
    async tryRun(command) {
      const lane = lanes.get(command.queue);
      if (lane === undefined || (draining && lane.slots.runOf(command._id) === undefined)) return 'not-ours';
      return lane.order.ring(command);
    },
    async poll() {
      const found = await readTogether([...lanes.values()]);
      await Promise.all(found.map(({ lane, due }) => pollAlone(lane, due)));
    },
    idle: async () => void (await Promise.allSettled(runs())),
    busy: () => [...lanes.values()].flatMap(({ slots }) => slots.commands()),
    slots: () => [...lanes.values()].map(({ queue, slots }) => ({ queue, total: slots.total, busy: slots.busy() })),
    async drain() {
      draining = true;
      loop.stop();
      await Promise.allSettled(runs());
    },
  };
}

/** Returns true if a command of the queue is due; false without an answer, because the claim that follows notices an outage. */
async function isDue({ mongo }: Kernel, queue: Queue, now: number): Promise<boolean> {
  return (await dueCommands(mongo, [queue], now, 1).catch(() => [])).length > 0;
}
