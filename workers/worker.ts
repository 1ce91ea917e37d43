import { setTimeout as delay } from 'node:timers/promises';
import pLimit, { type LimitFunction } from 'p-limit';
import { endHolderSession } from '#infra/mongo/mailbox/claim.ts';
import { type DueCommand, type DueReader, dueCommands, openDueReader } from '#infra/mongo/mailbox/due.ts';
import { type Queue, type RungCommand, TURN_QUEUES } from '#shared/kernel/command.ts';
import { type Actor, queuesOf } from './actor.ts';
import type { Kernel, RunResult } from './life.ts';
import { startLoop } from './loop.ts';
import { runCommand } from './run-command.ts';
import { type Turns, turnsByOrganization } from './turns.ts';

/** The poll and the slots of one worker process. */
export interface Worker {
  /** Runs a command as soon as a slot is free, if it can be claimed; called for each ring. Resolves when the run has ended. */
  tryRun(command: RungCommand): Promise<RunResult>;
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

/** The slots of one queue, and the commands that hold or await one, by id. */
interface Lane {
  slots: LimitFunction;
  /** Commands of the last read of the poll that this process has not begun, longest due first. Always empty with turns. */
  listed: Map<string, DueCommand>;
  running: Map<string, Promise<RunResult>>;
  /** All runs that hold or await a slot. With turns, `running` lacks the run of a ring whose command another run has taken. */
  inSlots: Set<Promise<RunResult>>;
  /** The abandoned command that began last, until its run ends or has renewed its lease; null: none. */
  probed: string | null;
  /** null: the command that has been due longest is first. */
  turns: Turns | null;
  readDue: DueReader;
}

/**
 * Due commands that one read lists. Turns choose among them, and a backlog of one organization fills one read at most. Without turns, the
 * poll works through the list before it reads again: a server may have to sort the whole backlog for each read.
 */
const WINDOW = 200;

/**
 * Opens the worker of an actor and starts its poll loop.
 *
 * Rings and the poll of a queue share its slots. A process never runs more than `concurrency` commands of one queue at a time,
 * and never one command twice at a time. Each queue has its own slots, so a hanging receiver blocks only its own queue. Because
 * of the poll, a lost ring delays a command by at most one interval.
 */
export function openWorker(kernel: Kernel, actor: Actor, options: WorkerOptions): Worker {
  const queues = queuesOf(actor);
  const lanes = new Map<Queue, Lane>();
  let draining = false;

  function laneOf(queue: Queue): Lane {
    const lane = lanes.get(queue) ?? {
      slots: pLimit(options.concurrency),
      listed: new Map(),
      running: new Map(),
      inSlots: new Set(),
      probed: null,
      ...orderOf(queue),
    };
    lanes.set(queue, lane);
    return lane;
  }

  function orderOf(queue: Queue): Pick<Lane, 'turns' | 'readDue'> {
    const turnQueue = TURN_QUEUES.find((one) => one === queue);
    const share = turnQueue === undefined ? undefined : actor.turns?.[turnQueue];
    if (turnQueue === undefined || share === undefined)
      return { turns: null, readDue: (now, limit) => dueCommands(kernel.mongo, [queue], now, limit) };
    const most = share === 'ALL' ? options.concurrency : Math.ceil(options.concurrency / 2);
    return { turns: turnsByOrganization(most), readDue: openDueReader(kernel.mongo, turnQueue) };
  }

  function runs(): Promise<RunResult>[] {
    return [...lanes.values()].flatMap(({ inSlots }) => [...inSlots]);
  }

  /** Starts a run as soon as a slot is free. */
  function inSlot({ slots, inSlots }: Lane, work: () => Promise<RunResult>): Promise<RunResult> {
    const run = slots(work);
    inSlots.add(run);
    void run.finally(() => inSlots.delete(run)).catch(() => undefined);
    return run;
  }

  function tryRun(rung: RungCommand): Promise<RunResult> {
    const lane = laneOf(rung.queue);
    const already = lane.running.get(rung._id);
    if (already !== undefined) return already;
    if (draining) return Promise.resolve('not-ours');
    return lane.turns === null ? runOne(lane, rung) : runNext({ ...lane, turns: lane.turns }, rung);
  }

  function runOne(lane: Lane, command: RungCommand): Promise<RunResult> {
    const { listed, running, turns } = lane;
    const { _id: id } = command;
    const run = inSlot(lane, async () => (draining ? 'not-ours' : runCommand(kernel, actor, command)));
    listed.delete(id);
    running.set(id, run);
    return run.finally(() => {
      if (running.get(id) === run) running.delete(id);
      turns?.end(id);
    });
  }

  /**
   * Runs the command whose turn it is once a slot is free. Rings arrive in the order of the requests, so one organization could
   * fill the slots with them. The command that was rung for runs in its own turn: by a later ring or by the poll.
   */
  function runNext(lane: Lane & { turns: Turns }, rung: RungCommand): Promise<RunResult> {
    const { running, turns } = lane;
    let holds = rung._id;
    const run = inSlot(lane, async (): Promise<RunResult> => {
      if (draining) return 'not-ours';
      const due = await lane.readDue(options.now(), WINDOW).catch(() => []);
      if (draining) return 'not-ours';
      const [next] = turns.take(due, 1);
      // Without a due command, the one of the ring may be claimable all the same: our clock may be behind that of its sender. Otherwise each
      // organization with due commands holds its share, and the poll runs them later.
      if (next === undefined && (due.length > 0 || turns.isRunning(rung._id))) return 'not-ours';
      if (running.get(rung._id) === run) running.delete(rung._id);
      const command = next ?? rung;
      holds = command._id;
      running.set(holds, run);
      return runCommand(kernel, actor, command).finally(() => turns.end(command._id));
    });
    running.set(rung._id, run);
    return run.finally(() => {
      if (running.get(holds) === run) running.delete(holds);
    });
  }

  async function poll(): Promise<void> {
    const found = await readDue(queues);
    await Promise.all(found.map(({ queue, due }) => pollAlone(queue, due)));
  }

  /**
   * Reads the due commands of several queues at once: through a router, each statement of a poll goes to every shard. Returns the queues that
   * have any, with these commands. `due` is null if the queue must read for itself: its slots are taken, or not all were listed.
   */
  async function readDue(asked: readonly Queue[]): Promise<{ queue: Queue; due: DueCommand[] | null }[]> {
    if (options.pollsTogether !== true) return asked.map((queue) => ({ queue, due: null }));
    const [first, ...others] = asked.filter((queue) => freeSlots(laneOf(queue)) > 0);
    const full = asked.filter((queue) => queue !== first && !others.includes(queue));
    const found = full.map((queue) => ({ queue, due: null as DueCommand[] | null }));
    if (first === undefined || draining) return found;
    const read = await dueCommands(kernel.mongo, [first, ...others], options.now(), WINDOW);
    // A backlog of one queue fills the window, and would hide the commands of the others.
    const isWhole = others.length === 0 || read.length < WINDOW;
    for (const queue of [first, ...others]) {
      const due = read.filter((command) => command.queue === queue);
      if (!isWhole) found.push({ queue, due: null });
      else if (due.length > 0) found.push({ queue, due });
    }
    return found;
  }

  function freeSlots({ slots }: Lane): number {
    return options.concurrency - slots.activeCount - slots.pendingCount;
  }

  function warnOfSession(commandId: string) {
    return (err: unknown) =>
      kernel.log.warn({ err, commandId, actor: actor.name }, 'session of an expired lease could not be ended');
  }

  /** Starts runs until no more can be claimed. `read` are the due commands of the queue, if they were just read. */
  async function pollQueue(queue: Queue, read: DueCommand[] | null): Promise<void> {
    const lane = laneOf(queue);
    const { listed, running, turns } = lane;
    let latest = read;
    const notOurs = new Set<string>();
    const isOpen = ({ _id }: DueCommand) => !running.has(_id) && !notOurs.has(_id);

    async function nextDue(free: number): Promise<DueCommand[]> {
      if (listed.size > 0) return [...listed.values()].slice(0, free);
      const all = latest ?? (await lane.readDue(options.now(), WINDOW + notOurs.size));
      latest = null;
      const open = all.filter(isOpen);
      const next = lane.probed === null ? open.find(({ abandoned }) => abandoned) : undefined;
      const due = open.filter((command) => !command.abandoned || command === next);
      if (turns !== null) return turns.take(due, free);
      // The stored session of a lost worker is ended at once or read again: later that worker may use it for another command.
      for (const command of due.slice(free)) if (!command.abandoned) listed.set(command._id, command);
      return due.slice(0, free);
    }

    while (!draining) {
      const free = freeSlots(lane);
      if (free <= 0) {
        latest = null;
        // All slots are taken. Continue as soon as any run ends, so that one slow command does not delay the others.
        await Promise.race(lane.inSlots);
        continue;
      }
      const fresh = await nextDue(free);
      if (fresh.length === 0) return;
      const started = fresh.map(async (command) => {
        const { _id: id, session, abandoned } = command;
        if (abandoned) probe(lane, id);
        // The previous holder died or was paused. A transaction that it left open would block the claim.
        if (session !== null) await endHolderSession(kernel.mongo, session).catch(warnOfSession(id));
        // Another worker holds the lease, or our clock is ahead of MongoDB's. Skip the command until the next poll.
        // A command that was taken in its turn must run here, even if a ring for it waits: that ring finds another one.
        const run = turns === null ? tryRun(command) : runOne(lane, command);
        const result = await run;
        endProbe(lane, id);
        if (result !== 'not-ours') return;
        notOurs.add(id);
        // Another process works through the same backlog: read what it has left.
        listed.clear();
      });
      // Slots are left free, for other organizations or because no more was due. What comes next must not wait for the end of a slow run.
      const isHeldFree = fresh.length < free;
      await Promise.race(isHeldFree ? [...started, delay(options.pollMs, undefined, { ref: false })] : started);
    }
  }

  /**
   * Notes that an abandoned command begins. The worker that it had may have ended because of it, or because of another command of that
   * worker. They begin one after the other, so that the culprit takes none of the others along a second time.
   */
  function probe(lane: Lane, id: string): void {
    lane.probed = id;
    // Its run has renewed its lease by then, so it blocks no worker.
    setTimeout(endProbe, kernel.leaseMs / 2, lane, id).unref();
  }

  function endProbe(lane: Lane, id: string): void {
    if (lane.probed === id) lane.probed = null;
  }

  const polling = new Set<Queue>();

  /**
   * Polls a queue, which the loop then leaves out. Of two polls at once, one may find the share of an organization taken by the other, and end
   * before the commands that it was to start.
   */
  async function pollAlone(queue: Queue, due: DueCommand[] | null): Promise<void> {
    polling.add(queue);
    await pollQueue(queue, due).finally(() => polling.delete(queue));
  }

  /** Polls the queues whose poll is not in progress. The poll of a queue with a constant backlog never ends, so it is not awaited. */
  async function pollOpen(): Promise<void> {
    const asked = queues.filter((queue) => !polling.has(queue));
    const warn = (about: object) => (err: unknown) =>
      kernel.log.warn({ err, actor: actor.name, ...about }, 'poll failed');
    const found = asked.length === 0 ? [] : await readDue(asked).catch(warn({ queues: asked }));
    for (const { queue, due } of found ?? []) void pollAlone(queue, due).catch(warn({ queue }));
  }
  const loop = startLoop({ everyMs: options.pollMs, phase: kernel.random() }, pollOpen);

  return {
    tryRun,
    poll,
    idle: async () => void (await Promise.allSettled(runs())),
    slots: () =>
      queues.map((queue) => ({ queue, total: options.concurrency, busy: lanes.get(queue)?.slots.activeCount ?? 0 })),
    busy: () => [...lanes.values()].flatMap(({ running }) => [...running.keys()]),
    async drain() {
      draining = true;
      loop.stop();
      await Promise.allSettled(runs());
    },
  };
}
