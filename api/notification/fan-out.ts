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

/** What a producer brings: recipients that are resolved already, and the event that they are told of. */
export interface FanOutInput<Event extends EventInput | null> {
  notifications: readonly NotificationInput[];
  event: Event;
  /** From the caller's header. */
  organizationId: string | null;
}

/** `made`: the stored event, null where the producer brought none, and its rows. `replayed`: the event was stored before. */
export type FannedOut<Stored extends NotificationEvent | null> =
  | { kind: 'made'; event: Stored; plan: FanOutPlan }
  | { kind: 'replayed'; event: NotificationEvent };

/** Makes the rows of an event, or finds that this event was brought before. */
export async function fanOutEvent(
  deps: NotificationDeps,
  input: FanOutInput<EventInput>,
): Promise<FannedOut<NotificationEvent>> {
  const { event, organizationId } = input;
  const known = await knownEvent(deps, event);
  if (known !== null) return { kind: 'replayed', event: known };
  return fanOut(deps, input, (made) => newEvent(event, { ...made, organizationId }));
}

/** Makes rows that belong to no event. */
export async function fanOutRows(deps: NotificationDeps, input: FanOutInput<null>): Promise<FannedOut<null>> {
  return fanOut(deps, input, () => null);
}

/**
 * Makes rows and their event, or finds that another call brought the event meanwhile. One commit makes event, rows and delivery
 * jobs; what follows it (rings, live streams, the audit's copy) may be lost.
 */
async function fanOut<Stored extends NotificationEvent | null>(
  deps: NotificationDeps,
  input: FanOutInput<EventInput | null>,
  eventOf: (made: { id: string; now: Date; created: number }) => Stored,
): Promise<FannedOut<Stored>> {
  const preferences = await preferencesOf(
    deps.mongo,
    input.notifications.map(({ userId }) => userId),
  );
  const now = deps.now();
  const fanOutId = newId(now);
  const ids = orderedIds(input.notifications.length, now);
  const made = { fanOutId, now: new Date(now), newId: () => ids.next().value ?? newId(now) };
  const plan = planFanOut({ ...input, preferences }, made);
  const event = eventOf({ id: fanOutId, now: made.now, created: plan.rows.length });
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

async function knownEvent(
  deps: NotificationDeps,
  { sourceService, sourceEventId }: EventInput,
): Promise<NotificationEvent | null> {
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
