import { setTimeout as rest } from 'node:timers/promises';
import { isOutage } from '#infra/mongo/faults.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { LeaseLost, type NextState, refundAttempt, settleCommand } from '#infra/mongo/mailbox/settle.ts';
import { inTransactionOf } from '#infra/mongo/transaction.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Effects, Outcome } from './actor.ts';
import { type Life, outcomeOfFault } from './life.ts';
import { nextStateOf } from './next-state.ts';

/** A worker's transaction must end well within its lease. */
const COMMIT_BUDGET_MS = 5_000;
/** Between two tries of a commit whose fate MongoDB does not tell. */
const SETTLE_AGAIN_MS = 500;

/**
 * What became of an outcome. `fenced`: another worker has the command. `unsettled`: the process stopped before MongoDB
 * answered; the command comes back when its lease is over.
 */
export type Settled<Q extends Queue> =
  | { kind: 'committed'; outcome: Outcome<Q>; next: NextState<Q> }
  | { kind: 'stale' }
  | { kind: 'fenced' }
  | { kind: 'unsettled' };

/**
 * Writes the outcome, again and again while MongoDB is unavailable and the lease may still be ours: an outage must
 * neither lose what was decided nor spend the attempt. A fault of the effects themselves becomes the outcome instead.
 */
export async function settle<Q extends Queue>(life: Life<Q>, outcome: Outcome<Q>): Promise<Settled<Q>> {
  const { kernel, actor, command } = life;
  const next = nextStateOf(command, outcome, { backoff: actor.backoff, random: kernel.random() });
  const wasCutOff = outcome.kind === 'snooze' && outcome.error !== undefined && !kernel.stop.aborted;
  for (let tries = 1; ; tries++) {
    const tried = await tryCommit(life, next, effectsOf(outcome));
    switch (tried.kind) {
      case 'committed':
        return { kind: 'committed', outcome, next };
      case 'stale':
        return { kind: 'stale' };
      case 'lost':
        // An outage, during the run or since, and not the command's own failure has cost us the attempt.
        if (wasCutOff || (tries > 1 && outcome.kind !== 'retry')) await giveBack(life);
        return { kind: 'fenced' };
      case 'unsure':
        if (kernel.stop.aborted) return { kind: 'unsettled' };
        await rest(SETTLE_AGAIN_MS);
        break;
      case 'fault':
        return settle(life, outcomeOfFault(kernel, tried.error));
      default:
        return tried satisfies never;
    }
  }
}

async function giveBack<Q extends Queue>({ kernel, command }: Life<Q>): Promise<void> {
  await refundAttempt(kernel.mongo, command).catch(() => undefined);
}

function effectsOf<Q extends Queue>(outcome: Outcome<Q>): Effects | undefined {
  return outcome.kind === 'rejected' ? undefined : outcome.effects;
}

type Tried =
  /** Written: now, or by an earlier try of this run whose reply was lost. Only this run can announce it. */
  | { kind: 'committed' }
  /** The document that the outcome was decided on has changed: nothing is written, decide again. */
  | { kind: 'stale' }
  /** Another worker has claimed the command: nothing is written. */
  | { kind: 'lost' }
  /** MongoDB does not say whether it is written. */
  | { kind: 'unsure' }
  /** The effects failed: nothing is written. */
  | { kind: 'fault'; error: unknown };

/** @throws what a write without effects throws, unless MongoDB is unavailable */
async function tryCommit<Q extends Queue>(life: Life<Q>, next: NextState<Q>, effects?: Effects): Promise<Tried> {
  try {
    await commit(life, next, effects);
    return { kind: 'committed' };
  } catch (error) {
    if (error instanceof LeaseLost || life.lease.lost()) return readOwnership(life);
    if (isOutage(error)) return { kind: 'unsure' };
    if (error instanceof Stale) return { kind: 'stale' };
    if (effects === undefined) throw error;
    return { kind: 'fault', error };
  }
}

/**
 * The command is written before the effects: from there on a renewal of its lease waits for this transaction. The other
 * way round each renewal would be a conflict with it, and one that takes longer than a third of the lease never ends.
 */
async function commit<Q extends Queue>(life: Life<Q>, next: NextState<Q>, effects?: Effects): Promise<void> {
  const { kernel, command } = life;
  if (effects === undefined) return settleCommand(kernel.mongo, command, next);
  await commitInLife(life, async (session) => {
    await settleCommand(kernel.mongo, command, next, session);
    await effects(session);
  });
}

/** One transaction in the name of this life; `write` may run several times. */
export function commitInLife<Q extends Queue>({ kernel, session }: Life<Q>, write: Effects): Promise<void> {
  return inTransactionOf(kernel.mongo, session, COMMIT_BUDGET_MS, () => write(session));
}

/**
 * Reads what became of a command that refused our write. If it still bears our fence and is settled, this very run has
 * settled it, in a commit that was reported as failed (a fail-over, a majority that came too late): every other claim
 * has a fence of its own. If it bears our fence and is leased, a majority has not yet heard of what refused us.
 */
async function readOwnership<Q extends Queue>({ kernel, command }: Life<Q>): Promise<Tried> {
  try {
    const now = await readCommand<Queue>(kernel.mongo, command.queue, command._id);
    if (now?.fence !== command.fence) return { kind: 'lost' };
    return { kind: now.status === 'PENDING' && now.lockedUntil !== null ? 'unsure' : 'committed' };
  } catch (error) {
    if (!isOutage(error)) throw error;
    return { kind: 'unsure' };
  }
}
