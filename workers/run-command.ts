import type { ClientSession } from 'mongodb';
import { isOutage } from '../shared/infra/mongo/faults.ts';
import { claimCommand } from '../shared/infra/mongo/mailbox/claim.ts';
import { withHolderSession } from '../shared/infra/mongo/mailbox/holder-session.ts';
import { renewLease } from '../shared/infra/mongo/mailbox/renew-lease.ts';
import { saveProgress } from '../shared/infra/mongo/mailbox/save-progress.ts';
import {
  LeaseLost,
  refundAttempt,
  type Settlement,
  settleCommand,
  takeBackClaim,
} from '../shared/infra/mongo/mailbox/settle-command.ts';
import { Stale } from '../shared/infra/mongo/stale.ts';
import { inTransactionOf } from '../shared/infra/mongo/transaction.ts';
import type { Command, Queue } from '../shared/kernel/command.ts';
import { isNetworkFault } from '../shared/kernel/network-fault.ts';
import type { Actor } from './actor.ts';
import { announce, bury } from './announce.ts';
import type { Ending, Kernel } from './kernel.ts';
import { holdLease, type Lease } from './lease.ts';
import type { Effects, Outcome } from './outcome.ts';
import { settlementOf } from './settlement.ts';

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
    stop: kernel.stop,
  });
  try {
    for (let round = 1; ; round++) {
      const outcome = await outcomeOf(kernel, actor, { command, session }, lease);
      const ending = await settle(kernel, actor, { command, session }, outcome, lease);
      if (ending !== 'stale') return ending;
      // Somebody wrote between load and commit: decide again on what is there now, a little apart from the rival.
      await new Promise((resolve) => setTimeout(resolve, kernel.random() * Math.min(round * 5, 100)));
    }
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
      await new Promise((resolve) => setTimeout(resolve, SETTLE_AGAIN_MS));
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
        inTransactionOf(session, COMMIT_BUDGET_MS, async () => {
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
      await commit(kernel, { command, session }, settlementOf(command, outcome, rules), effectsOf(outcome));
      return announce(kernel, command, outcome);
    } catch (error) {
      if (error instanceof LeaseLost || lease.lost()) return fenced(kernel, command, outage);
      if (error instanceof Stale) return 'stale';
      if (isOutage(error)) {
        if (kernel.stop.aborted) return 'fenced';
        outage = true;
        await new Promise((resolve) => setTimeout(resolve, SETTLE_AGAIN_MS));
        continue;
      }
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
  settlement: Settlement,
  effects: Effects | undefined,
): Promise<void> {
  if (effects === undefined) return settleCommand(kernel.mongo, command, settlement);
  await inTransactionOf(session, COMMIT_BUDGET_MS, async () => {
    await settleCommand(kernel.mongo, command, settlement, session);
    await effects(session);
  });
}

function effectsOf(outcome: Outcome): Effects | undefined {
  return outcome.kind === 'done' || outcome.kind === 'snooze' ? outcome.effects : undefined;
}

/** Another worker has the command now. If an outage cost us the lease, the attempt it spent is given back. */
async function fenced(kernel: Kernel, command: Command, outage: boolean): Promise<Ending> {
  kernel.log.warn(
    { commandId: command._id, queue: command.queue, fence: command.fence },
    'lease lost; nothing written',
  );
  if (outage) await refundAttempt(kernel.mongo, command).catch(() => undefined);
  return 'fenced';
}
