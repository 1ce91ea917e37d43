import type { ClientSession } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import type { ClaimCommand } from '#infra/mongo/mailbox/claim-many.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import type { CommitRun } from '#infra/mongo/mailbox/commit-many.ts';
import { clearHolderSession, renewLease } from '#infra/mongo/mailbox/settle.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { isNetworkFault } from '#shared/kernel/failure.ts';
import type { Actor, Outcome } from './actor.ts';

/** Wait of a command after a run that failed because of MongoDB or the network, in milliseconds. */
const OUTAGE_WAIT_MS = 1_000;

/** The parts of a worker process that every run uses. */
export interface Kernel {
  mongo: Mongo;
  log: Log;
  workerId: string;
  leaseMs: number;
  claim: ClaimCommand;
  commit: CommitRun;
  /** Notifies the front doors that wait for this command. The reply may be lost. Never throws. */
  publishSettled: (commandId: string) => void;
  count: (queue: Queue, result: RunResult) => void;
  /** Receives each claimed command, as the claim returned it, with how its run ended after `seconds`. */
  ran: (command: Command, result: RunResult, seconds: number) => void;
  random: () => number;
  /** Aborted when the process must end. It cuts runs short and snoozes their commands. */
  stop: AbortSignal;
  /**
   * true = a front door, which runs a command that a request waits for. Its process may end for the sake of any request, so a lapse proves
   * nothing about the command. It has no isolation slot either, without which a suspect would wait for ever.
   */
  amongRequests?: boolean;
  /** The isolation slot, in a thread that holds it for the one command that it runs. Absent in a worker that runs commands beside others. */
  alone?: {
    /** End of the slot, and of the lease of its command. */
    until: Date;
    /** Extends the slot for a step of the run. Returns the new end. Throws LeaseLost if the slot has ended. */
    extend(command: Command): Promise<Date>;
  };
}

/**
 * How a run ended for this worker. `retried`: it failed and has spent an attempt. `failed`: it failed and its attempt is refunded, because an outage,
 * a stop, a paused provider or a refused setting is at fault. `snoozed`: it chose to wait, and has not failed. `not-ours`: the claim was refused or failed, or the outcome could not be written. `fenced`:
 * the lease was lost, or the process stopped before MongoDB confirmed the outcome. Both leave the command to a later claim.
 */
export type RunResult = 'done' | 'rejected' | 'retried' | 'failed' | 'snoozed' | 'dead' | 'not-ours' | 'fenced';

/** A claimed command, with the session and the lease in which it is run and settled. */
export interface Life<Q extends Queue> {
  kernel: Kernel;
  actor: Actor;
  command: CommandOf<Q>;
  session: ClientSession;
  lease: Lease;
}

/** The lease of a claimed command while this worker runs and settles it. */
export interface Lease {
  /** Aborted when the lease is lost or the process stops. */
  signal: AbortSignal;
  /** Returns true once a renewal was refused: another worker has claimed the command, or it is settled. */
  lost(): boolean;
  end(): void;
}

/**
 * Runs `work` with a claimed command, and renews its lease until `work` ends. Returns and throws as `work` does. The lease of a command
 * that runs alone is not renewed, because it is the time limit of the run.
 */
export async function withLease<Q extends Queue>(
  claimed: Omit<Life<Q>, 'lease'>,
  work: (life: Life<Q>) => Promise<RunResult>,
): Promise<RunResult> {
  const { kernel, command } = claimed;
  const { mongo, leaseMs, alone, stop, log } = kernel;
  const lease = holdLease(command, {
    leaseMs,
    renew: async (held) => alone !== undefined || renewLease(mongo, held, leaseMs),
    failed: (err) => log.warn({ err, commandId: command._id, queue: command.queue }, 'lease renewal failed; retrying'),
    stop,
  });
  try {
    return await work({ ...claimed, lease });
  } catch (error) {
    // The outcome cannot be written, so the command stays leased until its lease expires. The driver reuses the session, so
    // the command must not name it any longer.
    await clearHolderSession(mongo, command).catch(() => undefined);
    throw error;
  } finally {
    lease.end();
  }
}

/**
 * Renews the lease of a command three times in its length, until `end` is called.
 *
 * If a renewal is refused, another worker has claimed the command (this process was paused), and the run is aborted. If a
 * renewal fails because MongoDB is unavailable, the next one follows on schedule: the fence excludes a late writer, not this
 * timer. `failed` is called for the first failure only, so an outage of minutes logs one line for each command.
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

/** Returns the outcome of a run that threw: `snooze` after an outage or a stop, which spends no attempt; otherwise `retry`. */
export function outcomeOfFault(kernel: Kernel, thrown: unknown): Extract<Outcome, { kind: 'snooze' | 'retry' }> {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  if (kernel.stop.aborted) return { kind: 'snooze', afterMs: 0, error };
  if (isOutage(error) || isNetworkFault(error)) return { kind: 'snooze', afterMs: OUTAGE_WAIT_MS, error };
  return { kind: 'retry', error };
}
