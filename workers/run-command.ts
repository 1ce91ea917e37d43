import { setTimeout as rest } from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import { isOutage } from '#infra/mongo/faults.ts';
import { type Claim, claimCommand, withHolderSession } from '#infra/mongo/mailbox/claim.ts';
import { saveProgress, takeBackClaim } from '#infra/mongo/mailbox/settle.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import type { Actor, Outcome } from './actor.ts';
import { type Ending, type Kernel, type Life, outcomeOfFault, withLease } from './life.ts';
import { commitInLife, type Settled, settle } from './settle.ts';

/** Between two tries to undo a claim whose reply was lost. */
const UNDO_AGAIN_MS = 500;

/**
 * One command's life: claim ▸ run (load, decide) ▸ settle (effects and state in one transaction) ▸ announce.
 *
 * Never rejects. A run may end at any point by a kill: the claim has counted the attempt, the lease runs out, and the
 * next claim begins again from the last checkpoint.
 */
export async function runCommand(kernel: Kernel, actor: Actor, queue: Queue, id: string): Promise<Ending> {
  const lived = withHolderSession(kernel.mongo, (session) => live(kernel, actor, { queue, id, session }));
  const ending = await lived.catch((error: unknown): Ending => {
    // Claiming failed because MongoDB is unavailable, or the outcome itself cannot be written: the command is unchanged
    // or comes back when its lease is over, and the poll finds it.
    kernel.log.warn({ err: error, commandId: id, queue }, 'command could not be claimed or settled');
    return 'not-ours';
  });
  kernel.count(queue, ending);
  return ending;
}

/** The command to be claimed, and the session for all that is done in its name. */
interface Wanted<Q extends Queue> {
  queue: Q;
  id: string;
  session: ClientSession;
}

async function live<Q extends Queue>(kernel: Kernel, actor: Actor, wanted: Wanted<Q>): Promise<Ending> {
  const claimed = await claim(kernel, wanted);
  if (claimed.kind === 'refused') return 'not-ours';
  if (claimed.kind === 'buried') return announceDead(kernel, claimed.command);
  const { command } = claimed;
  return withLease({ kernel, actor, command, session: wanted.session }, async (life) => {
    for (let round = 1; ; round++) {
      const outcome = await run(life);
      const settled = await settle(life, outcome);
      if (settled.kind !== 'stale') return announce(life, settled);
      // Another writer came between load and commit: decide again on the new state, a random moment apart from the rival.
      await rest(kernel.random() * Math.min(round * 5, 100));
    }
  });
}

/**
 * Claims the command. A claim whose reply was lost may have been made, and no worker could run the command until that
 * lease expires: it is undone, unspent, as soon as MongoDB answers again.
 */
async function claim<Q extends Queue>(kernel: Kernel, { queue, id, session }: Wanted<Q>): Promise<Claim<Q>> {
  const { mongo, workerId, leaseMs, stop } = kernel;
  try {
    return await claimCommand(mongo, { queue, id, workerId, leaseMs, session });
  } catch (error) {
    while (isOutage(error) && !stop.aborted) {
      const answered = await takeBackClaim(mongo, { queue, id, workerId }).then(
        () => true,
        () => false,
      );
      if (answered) break;
      await rest(UNDO_AGAIN_MS);
    }
    throw error;
  }
}

/** Runs the actor's handler; whatever it throws becomes an outcome. */
async function run<Q extends Queue>(life: Life<Q>): Promise<Outcome<Q>> {
  const { kernel, actor, command, lease } = life;
  try {
    const handler = actor.handlers[command.queue];
    if (handler === undefined) throw new Error(`${actor.name} has no handler for ${command.queue}`);
    return await handler({
      command,
      signal: lease.signal,
      checkpoint: (progress, effects) =>
        commitInLife(life, async (session) => {
          await saveProgress(kernel.mongo, command, progress, session);
          await effects(session);
        }),
    });
  } catch (error) {
    return outcomeOfFault(kernel, error);
  }
}

/** Logs how the run ended, notifies the front doors that wait for the end of the command, and starts what may be lost. */
function announce<Q extends Queue>(
  { kernel, command }: Life<Q>,
  settled: Exclude<Settled<Q>, { kind: 'stale' }>,
): Ending {
  const about = { commandId: command._id, queue: command.queue, subject: command.subject, attempt: command.attempts };
  if (settled.kind === 'unsettled') return 'fenced';
  if (settled.kind === 'fenced') {
    kernel.log.warn({ ...about, fence: command.fence }, 'lease lost; nothing written');
    return 'fenced';
  }
  const { outcome, next } = settled;
  switch (outcome.kind) {
    case 'done':
      kernel.publishSettled(command._id);
      try {
        outcome.after?.();
      } catch (err) {
        kernel.log.warn({ ...about, err }, 'best-effort work of a settled command failed');
      }
      return 'done';
    case 'rejected':
      kernel.publishSettled(command._id);
      return 'rejected';
    case 'snooze':
      if (outcome.error !== undefined) kernel.log.warn({ ...about, err: outcome.error }, 'command put back, unspent');
      return 'snoozed';
    case 'retry':
    case 'dead':
      if (next.to === 'DEAD') return announceDead(kernel, command, outcome.error);
      kernel.log.warn({ ...about, err: outcome.error }, 'command failed; it will be tried again');
      return 'retried';
    default:
      return outcome satisfies never;
  }
}

/** A dead command is published as well: the front door that waits for it must not wait for an operator. */
function announceDead(kernel: Kernel, command: Command, error?: Error): Ending {
  kernel.publishSettled(command._id);
  kernel.log.error(
    { commandId: command._id, queue: command.queue, subject: command.subject, err: error ?? command.lastError },
    'command is dead: see `examhall dead`',
  );
  return 'dead';
}
