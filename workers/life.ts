import type { ClientSession } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { forgetSession, renewLease } from '#infra/mongo/mailbox/settle.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { isNetworkFault } from '#shared/kernel/network-fault.ts';
import type { Actor, Outcome } from './actor.ts';

/** How long a command waits when MongoDB or the network, and not the command, is at fault. */
const OUTAGE_REST_MS = 1_000;

/** What a worker process gives every run. */
export interface Kernel {
  mongo: Mongo;
  log: Log;
  workerId: string;
  leaseMs: number;
  /** Notifies the front doors that wait for this command; never throws, may be lost. */
  publishSettled: (commandId: string) => void;
  count: (queue: Queue, ending: Ending) => void;
  random: () => number;
  /** Aborted when the process must end: runs are cut short and their commands put back. */
  stop: AbortSignal;
}

/** How a run ended for this worker; `not-ours` and `fenced` leave the command to another worker. */
export type Ending = 'done' | 'rejected' | 'retried' | 'snoozed' | 'dead' | 'not-ours' | 'fenced';

/** A claimed command, and all that is needed to run it and to write in its name. */
export interface Life<Q extends Queue> {
  kernel: Kernel;
  actor: Actor;
  command: CommandOf<Q>;
  session: ClientSession;
  lease: Lease;
}

/** The hold on a claimed command while its handler runs. */
export interface Lease {
  signal: AbortSignal;
  /** True once another worker has it, or may have: nothing of this run can be written any more. */
  lost(): boolean;
  end(): void;
}

/** Lives the life of a claimed command: its lease is renewed until `live` ends. */
export async function withLease<Q extends Queue>(
  claimed: Omit<Life<Q>, 'lease'>,
  live: (life: Life<Q>) => Promise<Ending>,
): Promise<Ending> {
  const { kernel, command } = claimed;
  const { mongo, leaseMs, stop, log } = kernel;
  const lease = holdLease(command, {
    leaseMs,
    renew: (held) => renewLease(mongo, held, leaseMs),
    failed: (err) =>
      log.warn({ err, commandId: command._id, queue: command.queue }, 'the lease could not be renewed; trying on'),
    stop,
  });
  try {
    return await live({ ...claimed, lease });
  } catch (error) {
    // The outcome cannot be written: the command stays ours until its lease is over, but the session goes on.
    await forgetSession(mongo, command).catch(() => undefined);
    throw error;
  } finally {
    lease.end();
  }
}

/**
 * Renews the lease three times in its length. A renewal that is refused means that the command was claimed again
 * (we were paused) and aborts the run. One that fails for want of MongoDB is tried again at the next turn: the fence,
 * not this timer, is what keeps a late writer out. `failed` hears of the first failure only: an outage of minutes is
 * one line for each command, not one for each try.
 */
export function holdLease(
  command: Command,
  options: {
    leaseMs: number;
    renew: (command: Command) => Promise<boolean>;
    failed: (error: unknown) => void;
    stop: AbortSignal;
  },
): Lease {
  const lost = new AbortController();
  const timer = setInterval(() => void renewOnce(), options.leaseMs / 3);
  timer.unref();
  let hasFailed = false;

  async function renewOnce(): Promise<void> {
    const held = await options.renew(command).catch((error: unknown) => {
      if (!hasFailed) options.failed(error);
      hasFailed = true;
      return true;
    });
    if (held) return;
    clearInterval(timer);
    lost.abort(new Error(`lease of command ${command._id} lost`));
  }

  return {
    signal: AbortSignal.any([lost.signal, options.stop]),
    lost: () => lost.signal.aborted,
    end: () => clearInterval(timer),
  };
}

/** The outcome of a run that threw. An outage or a stop spends no attempt. */
export function outcomeOfFault(kernel: Kernel, thrown: unknown): Extract<Outcome, { kind: 'snooze' | 'retry' }> {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  if (kernel.stop.aborted) return { kind: 'snooze', afterMs: 0, error };
  if (isOutage(error) || isNetworkFault(error)) return { kind: 'snooze', afterMs: OUTAGE_REST_MS, error };
  return { kind: 'retry', error };
}
