import { setTimeout as delay } from 'node:timers/promises';
import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { openClaims } from '#infra/mongo/mailbox/claim-many.ts';
import { openCommits } from '#infra/mongo/mailbox/commit-many.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { LeaseLost, type NextState, refundAttempt, settleCommand } from '#infra/mongo/mailbox/settle.ts';
import { inTransactionOf } from '#infra/mongo/transaction.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Effects, GroupedEffects, Outcome } from './actor.ts';
import { type Kernel, type Life, outcomeOfFault } from './life.ts';
import { nextStateOf } from './next-state.ts';

/** Time limit of a worker's transaction, retries included, in milliseconds. It must be well below the lease. */
const COMMIT_BUDGET_MS = 5_000;
/** Wait before a commit of unknown result is repeated, in milliseconds. */
const SETTLE_RETRY_MS = 500;

/**
 * The result of settling an outcome. `stale`: the document changed; decide again. `fenced`: another worker has claimed the
 * command. `unsettled`: the process stopped before MongoDB answered; the command is due again when its lease expires.
 */
export type SettleResult<Q extends Queue> =
  | { kind: 'committed'; outcome: Outcome<Q>; next: NextState<Q> }
  | { kind: 'stale' }
  | { kind: 'fenced' }
  | { kind: 'unsettled' };

/**
 * Writes the outcome. While MongoDB is unavailable and the lease is not known to be lost, it repeats the write: an outage must
 * neither lose the decision nor spend the attempt. If the effects fail, the failure becomes the outcome and is settled instead.
 */
export async function settle<Q extends Queue>(life: Life<Q>, outcome: Outcome<Q>): Promise<SettleResult<Q>> {
  const { kernel, actor, command } = life;
  const backoff = actor.backoffOf?.[command.queue] ?? actor.backoff;
  const next = nextStateOf(command, outcome, { backoff, random: kernel.random() });
  const wasCutOff = outcome.kind === 'snooze' && outcome.error !== undefined && !kernel.stop.aborted;
  for (let commits = 1; ; commits++) {
    const result = await tryCommit(life, next, { effects: effectsOf(outcome), apart: commits > 1 });
    switch (result.kind) {
      case 'committed':
        return { kind: 'committed', outcome, next };
      case 'stale':
        return { kind: 'stale' };
      case 'lost':
        // An outage, during the run or since, made the lease expire. The command itself did not fail, so refund its attempt.
        if (wasCutOff || (commits > 1 && outcome.kind !== 'retry')) await refund(life);
        return { kind: 'fenced' };
      case 'unsure':
        if (kernel.stop.aborted) return { kind: 'unsettled' };
        await delay(SETTLE_RETRY_MS);
        break;
      case 'fault':
        return settle(life, outcomeOfFault(kernel, result.error));
      default:
        return result satisfies never;
    }
  }
}

async function refund<Q extends Queue>({ kernel, command }: Life<Q>): Promise<void> {
  await refundAttempt(kernel.mongo, command).catch(() => undefined);
}

function effectsOf<Q extends Queue>(outcome: Outcome<Q>): Effects | GroupedEffects | undefined {
  return outcome.kind === 'rejected' ? undefined : outcome.effects;
}

type CommitResult =
  /** Written, by this commit or by an earlier one of this run whose reply was lost. Only this run can announce it. */
  | { kind: 'committed' }
  /** Nothing is written: the document on which the outcome was decided has changed. Decide again. */
  | { kind: 'stale' }
  /** Nothing is written: another worker has claimed the command. */
  | { kind: 'lost' }
  /** Unknown: MongoDB did not answer, or a majority does not confirm the current state yet. */
  | { kind: 'unsure' }
  /** Nothing is written: the effects failed. */
  | { kind: 'fault'; error: unknown };

/**
 * Commits once and classifies the result.
 *
 * @throws the error of a write without effects, unless it is an outage or the lease is lost
 */
async function tryCommit<Q extends Queue>(life: Life<Q>, next: NextState<Q>, end: End): Promise<CommitResult> {
  try {
    await commit(life, next, end);
    return { kind: 'committed' };
  } catch (error) {
    if (error instanceof LeaseLost || life.lease.lost()) return readOwnership(life);
    if (isOutage(error)) return { kind: 'unsure' };
    if (error instanceof Stale) return { kind: 'stale' };
    if (end.effects === undefined) throw error;
    return { kind: 'fault', error };
  }
}

/** Opens the claims and commits of a process. Those of the same moment share their MongoDB commands. */
export function openGroups(mongo: Mongo): Pick<Kernel, 'claim' | 'commit'> {
  return { claim: openClaims(mongo), commit: openCommits(mongo, COMMIT_BUDGET_MS) };
}

/** The end of a run: its effects, and whether they must not share a transaction with those of other runs. */
interface End {
  effects: Effects | GroupedEffects | undefined;
  apart: boolean;
}

/** Settles the command and makes its effects, all or nothing. The command is written first, as in `commit-many.ts`. */
async function commit<Q extends Queue>(life: Life<Q>, next: NextState<Q>, { effects, apart }: End): Promise<void> {
  const { kernel, command, session } = life;
  if (typeof effects !== 'function') return kernel.commit({ command, next, writes: effects ?? [], session, apart });
  await commitInLife(life, async () => {
    await settleCommand(kernel.mongo, command, next, session);
    await effects(session);
  });
}

/** Runs `write` in one transaction of the life's session. `write` may run several times. */
export function commitInLife<Q extends Queue>({ kernel, session }: Life<Q>, write: Effects): Promise<void> {
  return inTransactionOf(kernel.mongo, session, COMMIT_BUDGET_MS, () => write(session));
}

/**
 * Reads the command after its filter did not match our write.
 *
 * - `committed`: the command still has our fence and its lease has ended. Only this run has this fence, so its own earlier
 *   commit succeeded although it was reported as failed (after a failover or a late majority).
 * - `lost`: another claim has a newer fence.
 * - `unsure`: MongoDB is unavailable, or the command still shows our lease because the write that excluded ours is not
 *   majority-committed yet.
 */
async function readOwnership<Q extends Queue>({ kernel, command }: Life<Q>): Promise<CommitResult> {
  try {
    const now = await readCommand<Queue>(kernel.mongo, command);
    if (now?.fence !== command.fence) return { kind: 'lost' };
    return { kind: now.status === 'PENDING' && now.lockedUntil !== null ? 'unsure' : 'committed' };
  } catch (error) {
    if (!isOutage(error)) throw error;
    return { kind: 'unsure' };
  }
}
