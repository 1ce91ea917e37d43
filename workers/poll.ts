import { setTimeout as delay } from 'node:timers/promises';
import { endHolderSessions } from '#infra/mongo/mailbox/claim.ts';
import type { DueCommand, DueReader } from '#infra/mongo/mailbox/due.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Kernel } from './life.ts';
import type { Order } from './order.ts';
import type { Slots } from './slots.ts';

/** One queue of a worker process: its slots, and who gets them. */
export interface Lane {
  readonly queue: Queue;
  readonly slots: Slots;
  readonly order: Order;
  readonly readDue: DueReader;
  /** The abandoned command that began last, until its run ends or has renewed its lease; null: none. */
  probed: string | null;
}

export interface PollOptions {
  /** Name of the actor, for the log. */
  readonly actor: string;
  readonly pollMs: number;
  readonly now: () => number;
  /** Returns true once the worker claims no more. */
  readonly isDraining: () => boolean;
}

/**
 * Due commands that one read lists. Turns choose among them, and a backlog of one organization fills one read at most. Without turns, the
 * poll works through the list before it reads again.
 */
export const WINDOW = 200;

/**
 * Starts runs of due commands until no more can be claimed. `read` are the due commands of the queue if they were just read, otherwise null.
 * While all slots are taken, it waits for the end of a run.
 */
export async function pollQueue(
  kernel: Kernel,
  lane: Lane,
  read: DueCommand[] | null,
  options: PollOptions,
): Promise<void> {
  const { slots, order } = lane;
  let latest = read;
  const notOurs = new Set<string>();

  async function nextDue(free: number): Promise<DueCommand[]> {
    const left = order.listed(free);
    if (left.length > 0) return left;
    const all = latest ?? (await lane.readDue(options.now(), WINDOW + notOurs.size));
    latest = null;
    const open = all.filter(({ _id }) => slots.runOf(_id) === undefined && !notOurs.has(_id));
    // Their holders died or were paused. A transaction that one of them left open would block the claims.
    await endHolderSessions(
      kernel.mongo,
      open.flatMap(({ session }) => session ?? []),
    ).catch((err: unknown) =>
      kernel.log.warn({ err, actor: options.actor }, 'sessions of expired leases could not be ended'),
    );
    const next = lane.probed === null ? open.find(({ abandoned }) => abandoned) : undefined;
    return order.choose(
      open.filter((command) => !command.abandoned || command === next),
      free,
    );
  }

  async function begin(command: DueCommand): Promise<void> {
    const { _id: id, abandoned } = command;
    if (abandoned) probe(lane, id, kernel.leaseMs);
    const result = await order.begin(command);
    endProbe(lane, id);
    if (result !== 'not-ours') return;
    // Another worker holds the lease, or our clock is ahead of MongoDB's. Skip the command until the next poll.
    notOurs.add(id);
    order.forget();
  }

  while (!options.isDraining()) {
    const free = slots.free();
    if (free <= 0) {
      latest = null;
      // Continue as soon as any run ends, so that one slow command does not delay the others.
      await Promise.race(slots.runs());
      continue;
    }
    const fresh = await nextDue(free);
    if (fresh.length === 0) return;
    const started = fresh.map(begin);
    // Slots are left free, for other organizations or because no more was due. What comes next must not wait for the end of a slow run.
    const isHeldFree = fresh.length < free;
    await Promise.race(isHeldFree ? [...started, delay(options.pollMs, undefined, { ref: false })] : started);
  }
}

/**
 * Notes that an abandoned command begins. The worker that it had may have ended because of it, or because of another command of that
 * worker. They begin one after the other, so that the culprit takes none of the others along a second time.
 */
function probe(lane: Lane, id: string, leaseMs: number): void {
  lane.probed = id;
  // Its run has renewed its lease by then, so it blocks no worker.
  setTimeout(endProbe, leaseMs / 2, lane, id).unref();
}

function endProbe(lane: Lane, id: string): void {
  if (lane.probed === id) lane.probed = null;
}
