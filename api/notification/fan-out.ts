import { ringFor } from '#api/ask-worker.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { findEvent, insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { preferencesOf } from '#infra/mongo/notification/preferences.ts';
import { sendToAudit } from '#infra/neighbours/audit.ts';
import { newId } from '#shared/kernel/ids.ts';
import { settleFanOutOrder } from '#shared/notification/commands.ts';
import { auditEvent, type EventInput, type NotificationEvent, newEvent } from '#shared/notification/event.ts';
import { type FanOutPlan, planFanOut } from '#shared/notification/fan-out.ts';
import type { NotificationInput } from '#shared/notification/notification.ts';
import type { NotificationDeps } from './deps.ts';

/** What a producer brings: recipients that are resolved already, and the event they are told of, if any. */
export interface FanOutInput {
  notifications: readonly NotificationInput[];
  event: EventInput | null;
  /** From the caller's header. */
  organizationId: string | null;
}

export type FannedOut =
  | { kind: 'made'; event: NotificationEvent | null; plan: FanOutPlan }
  | { kind: 'replayed'; event: NotificationEvent };

/**
 * Makes the rows of an event or a batch, or finds that this event was brought before. One commit makes event, rows and delivery
 * jobs; what follows it (rings, live streams, the audit's copy) may be lost.
 */
export async function fanOut(deps: NotificationDeps, input: FanOutInput): Promise<FannedOut> {
  const known = await knownEvent(deps, input.event);
  if (known !== null) return { kind: 'replayed', event: known };

  const preferences = await preferencesOf(
    deps.mongo,
    input.notifications.map(({ userId }) => userId),
  );
  const now = deps.now();
  const fanOutId = newId(now);
  const ids = orderedIds(input.notifications.length, now);
  const made = { fanOutId, now: new Date(now), newId: () => ids.next().value ?? newId(now) };
  const plan = planFanOut({ ...input, preferences }, made);
  const event =
    input.event === null
      ? null
      : newEvent(input.event, {
          id: fanOutId,
          now: made.now,
          created: plan.rows.length,
          organizationId: input.organizationId,
        });
  const inserted = await insertFanOut(deps.mongo, {
    fanOutId,
    event,
    now,
    rows: plan.rows,
    staged: plan.staged,
    deliveries: { channels: deps.channels, maxAttempts: deps.deliveryAttempts },
    settle: newCommand({ ...settleFanOutOrder(fanOutId), maxAttempts: deps.commandAttempts, now }),
  });
  if (inserted.kind === 'replayed') return inserted;
  ringFor(deps, inserted.ring);
  deps.wake(plan.rows.map(({ userId }) => userId));
  if (event !== null) projectToAudit(deps, event);
  return { kind: 'made', event, plan };
}

/** Rows of one fan-out share their instant: by their ids, the later in the request counts as the newer. */
function orderedIds(count: number, now: number): ArrayIterator<string> {
  return Array.from({ length: count }, () => newId(now))
    .sort()
    .values();
}

async function knownEvent(deps: NotificationDeps, event: EventInput | null): Promise<NotificationEvent | null> {
  const { sourceService, sourceEventId } = event ?? {};
  if (!sourceService || !sourceEventId) return null;
  return findEvent(deps.mongo, { sourceService, sourceEventId });
}

/** Sends the audit service an event that has just been stored, once, in the background: a failure is counted and changes nothing. */
function projectToAudit(deps: NotificationDeps, event: NotificationEvent): void {
  const { audit, outboundTimeoutMs: timeoutMs } = deps;
  if (audit === null) return;
  // Small and made now: what waits in the background holds memory.
  const body = auditEvent(event);
  deps.background.run(() => sendToAudit(audit, body, { timeoutMs }));
}
