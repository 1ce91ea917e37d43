import { setTimeout as rest } from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { claimCommand, withHolderSession } from '#infra/mongo/mailbox/claim.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import {
  forgetSession,
  LeaseLost,
  type NextState,
  refundAttempt,
  renewLease,
  saveProgress,
  settleCommand,
  takeBackClaim,
} from '#infra/mongo/mailbox/settle.ts';
import { inTransactionOf } from '#infra/mongo/transaction.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { isNetworkFault } from '#shared/kernel/network-fault.ts';
import type { Actor, Effects, Outcome } from './actor.ts';
import { holdLease, type Lease } from './lease.ts';
import { nextStateOf } from './next-state.ts';

/** A worker's transaction must end well within its lease. */
const COMMIT_BUDGET_MS = 5_000;
/** How long a command rests when MongoDB or the network, and not the command, is at fault. */
const OUTAGE_REST_MS = 1_000;
const SETTLE_AGAIN_MS = 500;

/** The command to be claimed, and the session for all that is done in its name. */
interface Wanted {
  queue: Queue;
  id: string;
  session: ClientSession;
}

interface Claimed {
  command: Command<never>;
  session: ClientSession;
}

/**
 * One command's life: claim ▸ run (load, decide) ▸ settle (effects and state in one transaction) ▸ announce.
 *
 * Never rejects. A run may end at any point by a kill: the claim has counted the attempt, the lease runs out, and the
 * next claim begins again from the last checkpoint.
 */
export async function runCommand(kernel: Kernel, actor: Actor, queue: Queue, id: string): Promise<Ending> {
  const life = withHolderSession(kernel.mongo, (session) => lifeOf(kernel, actor, { queue, id, session }));
  const ending = await life.catch((error: unknown): Ending => {
    // Claiming failed for want of MongoDB, or the outcome itself cannot be written: the command is as it was or comes
    // back when its lease is over, and the poll finds it.
    kernel.log.warn({ err: error, commandId: id, queue }, 'command could not be claimed or settled');
    return 'not-ours';
  });
  kernel.count(queue, ending);
  return ending;
}

async function lifeOf(kernel: Kernel, actor: Actor, wanted: Wanted): Promise<Ending> {
  const { session } = wanted;
  const command = await claim(kernel, wanted);
  if (command === null) return 'not-ours';
  if (command.status === 'DEAD') return bury(kernel, command);

  const lease = holdLease(command, {
    leaseMs: kernel.leaseMs,
    renew: (held) => renewLease(kernel.mongo, held, kernel.leaseMs),
    failed: (err) =>
      kernel.log.warn(
        { err, commandId: command._id, queue: command.queue },
        'the lease could not be renewed; trying on',
      ),
    stop: kernel.stop,
  });
  try {
    for (let round = 1; ; round++) {
      const outcome = await outcomeOf(kernel, actor, { command, session }, lease);
      const ending = await settle(kernel, actor, { command, session }, outcome, lease);
      if (ending !== 'stale') return ending;
      // Somebody wrote between load and commit: decide again on what is there now, a little apart from the rival.
      await rest(kernel.random() * Math.min(round * 5, 100));
    }
  } catch (error) {
    // The outcome cannot be written: the command stays ours until its lease is over, but the session goes on.
    await forgetSession(kernel.mongo, command).catch(() => undefined);
    throw error;
  } finally {
    lease.end();
  }
}

/**
 * A claim whose reply was lost may have been made, and nobody would run what it holds: it is taken back, unspent, as
 * soon as MongoDB answers again.
 */
async function claim(kernel: Kernel, { queue, id, session }: Wanted): Promise<Command<never> | null> {
  const { mongo, workerId, leaseMs } = kernel;
  try {
    return await claimCommand<never>(mongo, { queue, id, workerId, leaseMs, session });
  } catch (error) {
    while (isOutage(error) && !kernel.stop.aborted) {
      const answered = await takeBackClaim(mongo, { queue, id, workerId }).then(
        () => true,
        () => false,
      );
      if (answered) break;
      await rest(SETTLE_AGAIN_MS);
    }
    throw error;
  }
}

/** Runs the actor; whatever it throws becomes an outcome. */
async function outcomeOf(kernel: Kernel, actor: Actor, { command, session }: Claimed, lease: Lease): Promise<Outcome> {
  try {
    return await actor.run({
      command: command as Command<never, never>,
      signal: lease.signal,
      checkpoint: (progress, effects) =>
        inTransactionOf(kernel.mongo, session, COMMIT_BUDGET_MS, async () => {
          await saveProgress(kernel.mongo, command, progress, session);
          await effects(session);
        }),
    });
  } catch (error) {
    return outcomeOfFault(kernel, error);
  }
}

function outcomeOfFault(kernel: Kernel, thrown: unknown): Outcome {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  if (kernel.stop.aborted) return { kind: 'snooze', afterMs: 0, error };
  if (isOutage(error) || isNetworkFault(error)) return { kind: 'snooze', afterMs: OUTAGE_REST_MS, error };
  return { kind: 'retry', error };
}

/**
 * Writes the outcome, again and again while MongoDB is away and the lease may still be ours: an outage must neither
 * lose what was decided nor spend the attempt. A fault of the effects themselves becomes an outcome of its own.
 */
async function settle(
  kernel: Kernel,
  actor: Actor,
  { command, session }: Claimed,
  decided: Outcome,
  lease: Lease,
): Promise<Ending | 'stale'> {
  const rules = { backoff: actor.backoff, random: kernel.random() };
  let outcome = decided;
  // Where the lease is lost now, MongoDB or the network cost us it.
  let outage = decided.kind === 'snooze' && decided.error !== undefined && !kernel.stop.aborted;
  for (;;) {
    try {
      await commit(kernel, { command, session }, nextStateOf(command, outcome, rules), effectsOf(outcome));
      return announce(kernel, command, outcome);
    } catch (error) {
      const refused = error instanceof LeaseLost || lease.lost();
      const standing = refused ? await standingOf(kernel, command) : 'unknown';
      // What was written before its reply was lost: nobody else will tell those who wait for it.
      if (standing === 'settled') return announce(kernel, command, outcome);
      if (standing === 'lost') return fenced(kernel, command, outage && outcome.kind !== 'retry');
      if (refused || isOutage(error)) {
        if (kernel.stop.aborted) return 'fenced';
        outage = true;
        await rest(SETTLE_AGAIN_MS);
        continue;
      }
      if (error instanceof Stale) return 'stale';
      if (effectsOf(outcome) === undefined) throw error;
      outcome = outcomeOfFault(kernel, error);
    }
  }
}

/**
 * The command is written before the effects: from there on a renewal of its lease waits for this transaction. The other
 * way round each renewal would be a conflict with it, and one that takes longer than a third of the lease never ends.
 */
async function commit(
  kernel: Kernel,
  { command, session }: Claimed,
  next: NextState,
  effects: Effects | undefined,
): Promise<void> {
  if (effects === undefined) return settleCommand(kernel.mongo, command, next);
  await inTransactionOf(kernel.mongo, session, COMMIT_BUDGET_MS, async () => {
    await settleCommand(kernel.mongo, command, next, session);
    await effects(session);
  });
}

function effectsOf(outcome: Outcome): Effects | undefined {
  return outcome.kind === 'rejected' ? undefined : outcome.effects;
}

/**
 * What became of a command that refused our write. `settled`: by this very run, in a commit that was reported as
 * failed (a fail-over, a majority that came too late), for every other claim has a fence of its own. `lost`: claimed
 * by another worker. `unknown`: MongoDB does not say, or a majority of it has not yet heard of what refused us.
 */
async function standingOf(kernel: Kernel, command: Command): Promise<'settled' | 'lost' | 'unknown'> {
  try {
    const now = await readCommand(kernel.mongo, command.queue, command._id);
    if (now?.fence !== command.fence) return 'lost';
    return now.status === 'PENDING' && now.lockedUntil !== null ? 'unknown' : 'settled';
  } catch (error) {
    if (!isOutage(error)) throw error;
    return 'unknown';
  }
}

/**
 * Another worker has the command now. If an outage, and not the command's own failure, cost us the attempt, it is given
 * back.
 */
async function fenced(kernel: Kernel, command: Command, outage: boolean): Promise<Ending> {
  kernel.log.warn(
    { commandId: command._id, queue: command.queue, fence: command.fence },
    'lease lost; nothing written',
  );
  if (outage) await refundAttempt(kernel.mongo, command).catch(() => undefined);
  return 'fenced';
}

/** Tells what a committed outcome is to be told of: the log, and front doors that wait for the end of the command. */
function announce(kernel: Kernel, command: Command, outcome: Outcome): Ending {
  const about = { commandId: command._id, queue: command.queue, subject: command.subject, attempt: command.attempts };
  switch (outcome.kind) {
    case 'snooze':
      if (outcome.error !== undefined) kernel.log.warn({ ...about, err: outcome.error }, 'command put back, unspent');
      return 'snoozed';
    case 'retry':
      if (command.attempts >= command.maxAttempts) return bury(kernel, command, outcome.error);
      kernel.log.warn({ ...about, err: outcome.error }, 'command failed; it will be tried again');
      return 'retried';
    case 'dead':
      return bury(kernel, command, outcome.error);
    case 'rejected':
      kernel.announce(command._id);
      return 'rejected';
    case 'done':
      kernel.announce(command._id);
      outcome.after?.();
      return 'done';
    default:
      return outcome satisfies never;
  }
}

/** A dead command is announced as well: whoever waits for it must not wait for an operator. */
function bury(kernel: Kernel, command: Command, error?: Error): Ending {
  kernel.announce(command._id);
  kernel.log.error(
    { commandId: command._id, queue: command.queue, subject: command.subject, err: error ?? command.lastError },
    'command is dead: see `examhall dead`',
  );
  return 'dead';
}

/** What a worker process gives every run. */
export interface Kernel {
  mongo: Mongo;
  log: Log;
  workerId: string;
  leaseMs: number;
  /** Tells waiting front doors that the command has settled; never throws, may be lost. */
  announce: (commandId: string) => void;
  count: (queue: Queue, ending: Ending) => void;
  random: () => number;
  /** Aborted when the process must end: runs are cut short and their commands put back. */
  stop: AbortSignal;
}

/** How a run ended for this worker; `not-ours` and `fenced` leave the command to somebody else. */
export type Ending = 'done' | 'rejected' | 'retried' | 'snoozed' | 'dead' | 'not-ours' | 'fenced';
