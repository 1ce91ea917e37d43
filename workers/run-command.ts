import { setTimeout as delay } from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import type { Fields } from '#infra/log/log.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { type Claim, withHolderSession } from '#infra/mongo/mailbox/claim.ts';
import { saveProgress, undoClaim } from '#infra/mongo/mailbox/settle.ts';
import { inScope, type Scope } from '#infra/trace/scope.ts';
import { inSpan, messageAttributes } from '#infra/trace/spans.ts';
import type { Command, CommandRef, Queue } from '#shared/kernel/command.ts';
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
export function runCommand(kernel: Kernel, actor: Actor, wanted: CommandRef): Promise<RunResult> {
  const { _id, queue } = wanted;
  const scope: Scope = { cause: undefined, command: { _id, queue } };
  return inScope(scope, async () => {
    const running = withHolderSession(kernel.mongo, (session) =>
      claimAndRun(kernel, actor, wanted, { session, scope }),
    );
    const result = await running.catch((error: unknown): RunResult => {
      // Either the claim failed because MongoDB is unavailable, or MongoDB refuses to store the outcome. The command is unchanged
      // or due again when its lease expires; the poll then finds it.
      kernel.log.warn({ err: error, commandId: _id, queue }, 'command could not be claimed or settled');
      return 'not-ours';
    });
    kernel.count(queue, result);
    return result;
  });
}

/** Claims and runs a command. Its transactions run in `session`. */
async function claimAndRun<Q extends Queue>(
  kernel: Kernel,
  actor: Actor,
  wanted: CommandRef<Q>,
  { session, scope }: { session: ClientSession; scope: Scope },
): Promise<RunResult> {
  const claimed = await claim(kernel, wanted, session);
  if (claimed.kind === 'refused') return 'not-ours';
  const { command } = claimed;
  scope.cause = command.cause;
  if (claimed.kind === 'dead') {
    const { attempts: attempt, lastError } = command;
    return announceDead({ kernel, actor, command }, { attempt, reason: lastError?.message });
  }
  if (claimed.kind === 'held') return announceHeld(kernel, command);
  const claimedAt = performance.now();
  const attributes = messageAttributes(command.queue, command._id, 'process', 'process');
  return inSpan({ kind: 'CONSUMER', name: `process ${command.queue}`, attributes }, async (span) => {
    span?.set({ 'examhall.command.attempt': command.attempts });
    const result = await withLease({ kernel, actor, command, session }, async (life) => {
      for (let pass = 1; ; pass++) {
        const outcome = await run(life);
        const settled = await settle(life, outcome);
        if (settled.kind !== 'stale') return announce(life, settled, claimedAt);
        // Another writer came between load and commit. Decide again on the new state, after a random wait (at most 100 ms) so
        // that the two do not collide again.
        await delay(kernel.random() * Math.min(pass * 5, 100));
      }
    });
    span?.set({ 'examhall.command.ending': result });
    if (result === 'retried' || result === 'failed' || result === 'dead') span?.fail(result);
    kernel.ran(command, result, (performance.now() - claimedAt) / 1_000);
    return result;
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
  const { mongo, workerId, leaseMs, alone, amongRequests = false, stop } = kernel;
  const aloneUntil = alone === undefined ? {} : { aloneUntil: alone.until };
  const holder = { workerId, leaseMs, session, amongRequests, ...aloneUntil };
  try {
    return await kernel.claim(wanted, holder);
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
      async checkpoint(progress, effects) {
        const leaseEnd = await kernel.alone?.extend(command);
        await commitInLife(life, async (session) => {
          await saveProgress(kernel.mongo, command, progress, { session, leaseEnd });
          await effects(session);
        });
      },
    });
  } catch (error) {
    return outcomeOfFault(kernel, error);
  }
}

/** Logs how the run ended, notifies the front doors that wait for the command, and starts the best-effort work of `after`. */
function announce<Q extends Queue>(
  life: Life<Q>,
  settled: Exclude<SettleResult<Q>, { kind: 'stale' }>,
  claimedAt: number,
): RunResult {
  if (settled.kind === 'unsettled') return 'fenced';
  const { kernel, command } = life;
  const times = { waitMs: waitOf(command, kernel.leaseMs), runMs: Math.round(performance.now() - claimedAt) };
  const ended = { queue: command.queue, commandId: command._id, attempt: command.attempts, ...times };
  const fields = { ...ended, subject: command.subject };
  if (settled.kind === 'fenced') {
    kernel.log.warn({ ...fields, fence: command.fence }, 'lease lost; nothing written');
    return 'fenced';
  }
  const { outcome, next } = settled;
  switch (outcome.kind) {
    case 'done':
      publishSettled(life);
      kernel.log.info({ ...ended, ending: 'done' }, 'command settled');
      try {
        outcome.after?.();
      } catch (err) {
        kernel.log.warn({ ...fields, err }, 'best-effort work of a settled command failed');
      }
      return 'done';
    case 'rejected':
      publishSettled(life);
      kernel.log.info({ ...ended, ending: 'rejected' }, 'command settled');
      return 'rejected';
    case 'snooze':
      if (outcome.error === undefined) return 'snoozed';
      kernel.log.warn({ ...fields, err: outcome.error }, 'command snoozed after error; attempt refunded');
      return 'failed';
    case 'retry':
    case 'dead':
      if (next.to === 'DEAD') return announceDead(life, ended, outcome.error);
      kernel.log.warn({ ...fields, err: outcome.error }, 'command failed; retry scheduled');
      return 'retried';
    default:
      return outcome satisfies never;
  }
}

type Ended = Pick<Life<Queue>, 'kernel' | 'actor' | 'command'>;

/** Notifies the front doors that wait for the command. None waits for those of an actor that yields. */
function publishSettled({ kernel, actor, command }: Ended): void {
  if (actor.yieldsTo === undefined) kernel.publishSettled(command._id);
}

/** Logs a dead command and notifies front doors. A front door must not wait until an operator replays the command. */
function announceDead(ended: Ended, fields: Fields, error?: Error): RunResult {
  const { kernel, command } = ended;
  publishSettled(ended);
  kernel.log.error(
    {
      commandId: command._id,
      queue: command.queue,
      subject: command.subject,
      ...fields,
      ending: 'dead',
      err: error,
    },
    'command is dead: see `examhall dead`',
  );
  return 'dead';
}

/** Logs a suspect. Front doors go on waiting for it: it ends in the isolation slot. */
function announceHeld(kernel: Kernel, { _id, queue, subject, attempts }: Command): RunResult {
  const fields = { commandId: _id, queue, subject, attempt: attempts };
  kernel.log.warn(fields, 'command held after two lapses; it runs alone next');
  return 'not-ours';
}

/** Returns the time from when the command was first due to this claim, in milliseconds. */
function waitOf({ dueAt, lockedUntil }: Command, leaseMs: number): number | null {
  return dueAt === undefined || lockedUntil === null
    ? null
    : Math.max(0, lockedUntil.getTime() - leaseMs - dueAt.getTime());
}
