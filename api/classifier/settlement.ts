import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { ringAndWait } from '#api/ring-and-wait.ts';
import type { Call } from '#api/route.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { findGeneration } from '#infra/mongo/classifier/generations.ts';
import { endHolderSessions } from '#infra/mongo/mailbox/claim.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { makeDueNow, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { settlesWithin } from '#infra/process/background.ts';
import { noteAwaited } from '#infra/trace/scope.ts';
import { settlementCommand } from '#shared/classifier/commands.ts';
import {
  type OwedGeneration,
  RETRY_AFTER_SECONDS,
  type SettledGeneration,
  settlementPending,
} from '#shared/classifier/generation.ts';
import { type CommandRef, FRONT_DOOR } from '#shared/kernel/command.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Kernel } from '#workers/life.ts';
import { runCommand } from '#workers/run-command.ts';
import { openGroups } from '#workers/settle.ts';
import { settlesWith } from '#workers/settlement/actor.ts';
import type { PreviewDeps, SettlementWorker } from './deps.ts';

/**
 * A front door never charges by itself. It has the settlement command run, by the worker or by the same code in this process, and reads
 * what became of the generation.
 */

/** Delay before a command that another process runs is read again (ms). */
const POLL_MS = 100;

/** An equal request holds the row, or has its answer paid for, for longer than this request may wait. */
export const IN_PROGRESS: Rejection = { rejected: 'AI_GENERATION_IN_PROGRESS', retryAfter: RETRY_AFTER_SECONDS };

/**
 * Abort signals of a request. `signal` aborts when the client leaves and ends only waiting. `stop` aborts when the process must
 * stop, and ends paid work.
 */
export type Signals = Pick<Call, 'signal' | 'stop'>;

/** Limits of the wait of a request for a settlement. */
interface Limits extends Signals {
  /** When a request no longer waits for another process (ms of `performance.now`). */
  giveUpAt: number;
  /** true = the request has waited for the process that made the answer. */
  hasWaited: boolean;
}

/** How a wait for a settlement ended. `unpaid`: its run failed or is late. `busy`: another process is still running it. */
type Wait = 'settled' | 'unpaid' | 'busy';

/**
 * Has the settlement of an answer run, and returns the settled generation, or the rejection after which the client must send the same
 * request again. A settlement that is backing off becomes due at once. If the run is late, it continues without this request.
 */
export async function settle(
  deps: PreviewDeps,
  row: OwedGeneration,
  limits: Limits,
): Promise<SettledGeneration | Rejection> {
  const { mongo, settlementWorker } = deps;
  const command = settlementCommand(row);
  const wait =
    settlementWorker === null
      ? await runHere(deps, command, limits)
      : await runInWorker(deps, settlementWorker, command, limits);
  let now = await findGeneration(mongo, row);
  if (now?.state !== 'SETTLED' && wait === 'settled') {
    // The commit of the settlement may be visible on the shard of the command alone: the second read waits for it.
    now = await inCausalOrder(mongo, async (session) => {
      await readCommand(mongo, command, session);
      return findGeneration(mongo, row, session);
    });
  }
  if (now?.state === 'SETTLED') return now;
  return wait === 'busy' ? IN_PROGRESS : settlementPending(row._id);
}

/** Rings the settlement worker and waits for it, until the client leaves or the wait times out. */
async function runInWorker(
  { mongo }: PreviewDeps,
  worker: SettlementWorker,
  wanted: CommandRef<'settlement'>,
  { signal }: Signals,
): Promise<Wait> {
  const command = await makeDueNow(mongo, wanted);
  if (command === null) return 'unpaid';
  const hasSettled = await ringAndWait({ mongo, ...worker }, command, { timeoutMs: worker.waitMs, signal });
  return hasSettled ? 'settled' : 'unpaid';
}

/**
 * Runs the command as the worker would, or waits for the process that is running it. A run that failed is not repeated for the requests
 * that waited for it: otherwise each of them would call a failing owner in turn.
 */
async function runHere(deps: PreviewDeps, wanted: CommandRef<'settlement'>, limits: Limits): Promise<Wait> {
  const { mongo, now } = deps;
  let { hasWaited } = limits;
  for (;;) {
    const command = await readCommand(mongo, wanted);
    if (command === null) return 'unpaid';
    const { status, lockedUntil, fence } = command;
    if (status !== 'PENDING') return 'settled';
    if (lockedUntil === null && hasWaited && fence > 0) return 'unpaid';
    if (lockedUntil === null || lockedUntil.getTime() <= now()) {
      const result = await runOnce(deps, command, limits.stop);
      if (result !== 'busy') return result;
    }
    if (performance.now() >= limits.giveUpAt) return 'busy';
    hasWaited = true;
    await delay(POLL_MS, undefined, { signal: limits.signal });
  }
}

/** Runs the command once in this process, even if the client leaves. `busy`: another process has claimed it. */
async function runOnce(deps: PreviewDeps, command: CommandOf<'settlement'>, stop: AbortSignal): Promise<Wait> {
  const { mongo, log, outboundTimeoutMs: timeoutMs, timing } = deps;
  const { usage, wallet } = deps.neighbours;
  if (usage === null || wallet === null) return 'unpaid';
  const { _id: commandId, subject: previewId, fence, lockedUntil, session } = command;
  if (lockedUntil !== null && session != null) {
    // The previous run died or was paused. A transaction that it left open would block the claim.
    await endHolderSessions(mongo, [session]).catch((err: unknown) =>
      log.warn({ err, commandId, actor: 'settlement' }, 'sessions of expired leases could not be ended'),
    );
  }
  if (fence > 0) await makeDueNow(mongo, command);

  const kernel: Kernel = {
    mongo,
    log,
    // A name of this run alone: if the reply to its claim is lost, it must not undo that of an equal request.
    workerId: `${FRONT_DOOR}${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`,
    leaseMs: timing.leaseMs,
    ...openGroups(mongo),
    amongRequests: true,
    publishSettled: () => undefined,
    count: () => undefined,
    ran: () => undefined,
    random: Math.random,
    stop,
  };
  const actor = settlesWith({ mongo, payees: { usage, wallet }, timeoutMs, settledBy: 'front door' });
  noteAwaited(commandId);
  const running = runCommand(kernel, actor, command);
  // During an outage of MongoDB, the run repeats its commit until its lease is lost.
  const isOver = await settlesWithin(running, timing.waitMs);
  const result = isOver ? await running : 'failed';
  if (result === 'done') return 'settled';
  if (result === 'not-ours' || result === 'fenced') return 'busy';
  log.warn({ commandId, previewId }, 'settling a generation failed; 503 returned');
  return 'unpaid';
}
