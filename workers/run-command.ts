import { setTimeout as delay } from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import { isOutage } from '#infra/mongo/faults.ts';
import { type Claim, claimCommand, withHolderSession } from '#infra/mongo/mailbox/claim.ts';
import { keyedCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { saveProgress, undoClaim } from '#infra/mongo/mailbox/settle.ts';
import type { Command, CommandRef, Queue, RungCommand } from '#shared/kernel/command.ts';
import type { Actor, Outcome } from './actor.ts';
import { type Kernel, type Life, outcomeOfFault, type RunResult, withLease } from './life.ts';
import { commitInLife, type SettleResult, settle } from './settle.ts';

/** Wait between two attempts to undo a claim whose reply was lost, in milliseconds. */
const UNDO_RETRY_MS = 500;

/**
 * Runs one command: claim ▸ run (load, decide) ▸ settle (effects and state in one transaction) ▸ announce. Returns how it ended
 * for this worker. Never rejects.
 *
 * The process may be killed at any point. The claim has already counted the attempt; when the lease expires, the next claim
 * continues from the last checkpoint.
 */
export async function runCommand(kernel: Kernel, actor: Actor, rung: RungCommand): Promise<RunResult> {
  const { _id, queue } = rung;
  const running = withHolderSession(kernel.mongo, (session) => claimAndRun(kernel, actor, rung, session));
  const result = await running.catch((error: unknown): RunResult => {
    // Either the claim failed because MongoDB is unavailable, or MongoDB refuses to store the outcome. The command is unchanged
    // or due again when its lease expires; the poll then finds it.
    kernel.log.warn({ err: error, commandId: _id, queue }, 'command could not be claimed or settled');
    return 'not-ours';
  });
  kernel.count(queue, result);
  return result;
}

/** Claims and runs a command. Its transactions run in `session`. */
async function claimAndRun<Q extends Queue>(
  kernel: Kernel,
  actor: Actor,
  rung: RungCommand<Q>,
  session: ClientSession,
): Promise<RunResult> {
  const wanted = await keyedCommand(kernel.mongo, rung);
  if (wanted === null) return 'not-ours';
  const claimed = await claim(kernel, wanted, session);
  if (claimed.kind === 'refused') return 'not-ours';
  if (claimed.kind === 'dead') return announceDead(kernel, claimed.command);
  const { command } = claimed;
  return withLease({ kernel, actor, command, session }, async (life) => {
    for (let pass = 1; ; pass++) {
      const outcome = await run(life);
      const settled = await settle(life, outcome);
      if (settled.kind !== 'stale') return announce(life, settled);
      // Another writer came between load and commit. Decide again on the new state, after a random wait (at most 100 ms) so
      // that the two do not collide again.
      await delay(kernel.random() * Math.min(pass * 5, 100));
    }
  });
}

/**
 * Claims the command. If the reply to a claim is lost, the claim may still have committed and would block the command until its
 * lease expires. It is undone, without spending the attempt, once MongoDB answers. The error is thrown in any case.
 */
async function claim<Q extends Queue>(
  kernel: Kernel,
  wanted: CommandRef<Q>,
  session: ClientSession,
): Promise<Claim<Q>> {
  const { mongo, workerId, leaseMs, stop } = kernel;
  try {
    return await claimCommand(mongo, wanted, { workerId, leaseMs, session });
  } catch (error) {
    while (isOutage(error) && !stop.aborted) {
      const answered = await undoClaim(mongo, wanted, { workerId }).then(
        () => true,
        () => false,
      );
      if (answered) break;
      await delay(UNDO_RETRY_MS);
    }
    throw error;
  }
}

/** Runs the actor's handler. A thrown error becomes an outcome. */
async function run<Q extends Queue>(life: Life<Q>): Promise<Outcome<Q>> {
  const { kernel, actor, command, lease } = life;
  try {
    const handler = actor.handlers[command.queue];
    if (handler === undefined) throw new Error(`${actor.name} has no handler for ${command.queue}`);
    return await handler({
      command,
      signal: lease.signal,
      session: life.session,
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

/** Logs how the run ended, notifies the front doors that wait for the command, and starts the best-effort work of `after`. */
function announce<Q extends Queue>(
  { kernel, command }: Life<Q>,
  settled: Exclude<SettleResult<Q>, { kind: 'stale' }>,
): RunResult {
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
      if (outcome.error !== undefined)
        kernel.log.warn({ ...about, err: outcome.error }, 'command snoozed after error; attempt refunded');
      return 'snoozed';
    case 'retry':
    case 'dead':
      if (next.to === 'DEAD') return announceDead(kernel, command, outcome.error);
      kernel.log.warn({ ...about, err: outcome.error }, 'command failed; retry scheduled');
      return 'retried';
    default:
      return outcome satisfies never;
  }
}

/** Logs a dead command and notifies front doors. A front door must not wait until an operator replays the command. */
function announceDead(kernel: Kernel, command: Command, error?: Error): RunResult {
  kernel.publishSettled(command._id);
  kernel.log.error(
    { commandId: command._id, queue: command.queue, subject: command.subject, err: error ?? command.lastError },
    'command is dead: see `examhall dead`',
  );
  return 'dead';
}
