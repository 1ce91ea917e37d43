import { type Adapter, type DeliveryJob, Paused, Permanent, Retryable, Unreachable } from '#infra/channels/channel.ts';
import { openChannels } from '#infra/channels/channels.ts';
import { isStoreOutage } from '#infra/mongo/faults.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import type { DeliveryAttemptKey } from '#infra/mongo/notification/collections.ts';
import { findDispatch, forgetRecipient } from '#infra/mongo/notification/deliveries.ts';
import {
  beginDeliveryAttempt,
  type DeliveryAttemptEnd,
  deleteDeliveryAttempt,
  deliveryAttemptKey,
  endDeliveryAttempt,
  failAbandonedAttempt,
} from '#infra/mongo/notification/delivery-attempts.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import {
  type Channel,
  checkDispatch,
  type DeliveryAttempt,
  type DispatchRefusal,
  type UnreachableReason,
} from '#shared/notification/delivery.ts';
import { type Notification, notificationView } from '#shared/notification/notification.ts';
import type { Actor, Effects, Handlers, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

const CAP_MS = 10 * MINUTE;

type DeliveryQueue = `delivery:${Channel}`;

/**
 * Delivers notifications over the channels beside the inbox, at least once; a receiver recognises a repeat by the job's id. A job is
 * suppressed for good if its user is muted, has disabled the type, has deleted the notification or cannot be reached. Each delivery attempt has
 * a row: written before the call, ended in the commit that settles the job. Jobs of a channel that is not configured stay unclaimed.
 */
export function deliveryActor(
  deps: WorkerDeps,
  adapters: ReadonlyMap<Channel, Adapter> = openChannels(deps.config.notification, deps),
): Actor {
  const { retryBaseMs, leaseMs } = deps.config.notification.delivery;
  const handlers: Handlers = {};
  for (const [channel, adapter] of adapters) handlers[`delivery:${channel}`] = (run) => deliver(deps, adapter, run);
  return {
    name: 'delivery',
    yieldsTo: 'grading',
    handlers,
    backoff: { baseMs: retryBaseMs, capMs: CAP_MS },
    leaseMs,
  };
}

async function deliver(deps: WorkerDeps, adapter: Adapter, run: Run<DeliveryQueue>): Promise<Outcome<DeliveryQueue>> {
  const { command, signal } = run;
  const first = await checkAgain(deps, run);
  if (first.kind === 'suppress') return suppressOutcome(deps, command, first.reason);

  const row = attemptRow(command, first.notification, adapter.provider, new Date(deps.now()));
  const previous = previousRow(command);
  await run.checkpoint({ tryId: row._id }, async (session) => {
    if (previous !== null) await failAbandonedAttempt(deps.mongo, previous, session);
    await beginDeliveryAttempt(deps.mongo, row, session);
  });
  // Check again directly before the call: the user may have muted or deleted the notification during the checkpoint.
  const last = await checkAgain(deps, run);
  if (last.kind === 'suppress') return suppressOutcome(deps, command, last.reason, row);

  const { body } = command;
  const job = { deliveryJobId: command._id, channel: body.channel, notification: notificationView(last.notification) };
  const sent = await send(adapter, job, signal);
  if ('unreachable' in sent) return suppressOutcome(deps, command, sent.unreachable, row);
  if ('paused' in sent) {
    const { afterMs } = sent.paused;
    const effects: Effects = (session) => deleteDeliveryAttempt(deps.mongo, row, session);
    return { kind: 'snooze', afterMs, error: sent.paused, effects };
  }
  const { outcome, end } = sent;
  return { ...outcome, effects: (session) => endDeliveryAttempt(deps.mongo, command, end, session) };
}

async function checkAgain(deps: WorkerDeps, { command, session }: Run<DeliveryQueue>) {
  return checkDispatch(await findDispatch(deps.mongo, command.body, session), new Date(deps.now()));
}

/**
 * Deletes the attempt row of this run, because nothing was sent, and marks as FAILED a row that an interrupted run left QUEUED. The job of a
 * notification that is gone forgets its user: the row may have gone by an erasure, which can no longer find the job.
 */
function suppressOutcome(
  deps: WorkerDeps,
  command: CommandOf<DeliveryQueue>,
  reason: DispatchRefusal,
  row?: DeliveryAttemptKey,
): Outcome<DeliveryQueue> {
  const previous = previousRow(command);
  return {
    kind: 'done',
    as: 'SUPPRESSED',
    result: { reason },
    effects: async (session) => {
      if (previous !== null) await failAbandonedAttempt(deps.mongo, previous, session);
      if (row !== undefined) await deleteDeliveryAttempt(deps.mongo, row, session);
      if (reason === 'GONE') await forgetRecipient(deps.mongo, command, session);
    },
  };
}

/** Returns the key of the last delivery attempt's row before this claim, or null. That row may still be QUEUED. */
function previousRow({ progress, body }: CommandOf<DeliveryQueue>): DeliveryAttemptKey | null {
  return progress === null ? null : { _id: progress.tryId, userId: body.userId };
}

function attemptRow(
  command: CommandOf<DeliveryQueue>,
  notification: Notification,
  provider: string,
  now: Date,
): DeliveryAttempt {
  const { notificationId, channel } = command.body;
  return {
    ...deliveryAttemptKey(command),
    notificationId,
    organizationId: notification.organizationId,
    channel,
    provider,
    status: 'QUEUED',
    attempt: command.attempts,
    isSupport: notification.isSupport,
    providerId: null,
    nextRetryAt: null,
    error: null,
    metadata: null,
    createdAt: now,
    updatedAt: now,
  };
}

/** The end of a delivery attempt, for the job and for the attempt row. */
interface SendResult {
  outcome: Extract<Outcome<DeliveryQueue>, { kind: 'done' | 'retry' | 'dead' }>;
  end: DeliveryAttemptEnd;
}

/**
 * Calls the adapter once. An error that it throws is the channel's fault, even a network fault, and spends the attempt. Rethrows if the
 * run was cut short or MongoDB did not answer the adapter; the attempt row then stays QUEUED.
 */
async function send(
  adapter: Adapter,
  job: DeliveryJob,
  signal: AbortSignal,
): Promise<SendResult | { unreachable: UnreachableReason } | { paused: Paused }> {
  try {
    const { providerId } = await adapter.send(job, { signal });
    return { outcome: { kind: 'done', as: 'SENT', result: { providerId } }, end: { kind: 'sent', providerId } };
  } catch (thrown) {
    signal.throwIfAborted();
    if (isStoreOutage(thrown)) throw thrown;
    if (thrown instanceof Unreachable) return { unreachable: thrown.reason };
    if (thrown instanceof Paused) return { paused: thrown };
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    return { outcome: failure(error), end: { kind: 'failed', error: error.message } };
  }
}

function failure(error: Error): SendResult['outcome'] {
  if (error instanceof Permanent) return { kind: 'dead', error };
  const afterMs = error instanceof Retryable ? error.afterMs : undefined;
  return { kind: 'retry', error, ...(afterMs === undefined ? {} : { afterMs }) };
}
