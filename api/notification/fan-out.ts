import { ringFor } from '#api/ring-and-wait.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { storeSuppressed, suppressedOf } from '#infra/mongo/notification/suppressions.ts';
import { eraseStoredMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { EVENT_ATTEMPTS } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { jsonText } from '#shared/kernel/json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { auditOrder, finishFanOutOrder } from '#shared/notification/commands.ts';
import { type EventInput, type NotificationEvent, newEvent } from '#shared/notification/event.ts';
import {
  type ErasedIds,
  type FanOutPlan,
  personsIn,
  planFanOut,
  planWithout,
  withoutErased,
} from '#shared/notification/fan-out.ts';
import type { NotificationInput } from '#shared/notification/notification.ts';
import type { NotificationDeps } from './deps.ts';

/** Input of a producer: resolved recipients with their texts, and the event that caused them. */
export interface FanOutInput<Event extends EventInput | null> {
  notifications: readonly NotificationInput[];
  event: Event;
  /** Taken from the caller's header. */
  organizationId: string | null;
  /** True if the replay key belongs to the event's actor. Default false: all services share it. */
  keyedByActor?: boolean;
}

/** `made`: the stored event, or null if the producer sent none, and its rows. `replayed`: the event was stored before. */
export type FannedOut<Stored extends NotificationEvent | null> =
  | { kind: 'made'; event: Stored; plan: FanOutPlan }
  | { kind: 'replayed'; event: NotificationEvent };

/** Stores an event and its rows, or returns the stored event if it was received before. */
export async function fanOutEvent(
  deps: NotificationDeps,
  input: FanOutInput<EventInput>,
): Promise<FannedOut<NotificationEvent>> {
  const { event, organizationId, keyedByActor = false } = input;
  const known = await knownEvent(deps, event, keyedByActor);
  if (known !== null) return replayed(deps, input, known);
  const payloadText = await inPieces(jsonText(event.payload ?? undefined));
  const payload = payloadText === undefined ? {} : { payloadText };
  return fanOut(deps, input, ({ erased, ...facts }) =>
    newEvent(withoutErased(event, erased), { ...facts, ...payload, organizationId, keyedByActor }),
  );
}

/** The process that stored the event may have ended before it searched for erasures that had begun meanwhile: a replay does so. */
async function replayed(
  deps: NotificationDeps,
  { notifications, event: input }: FanOutInput<EventInput | null>,
  event: NotificationEvent,
): Promise<{ kind: 'replayed'; event: NotificationEvent }> {
  const { erasedAmong: read } = deps.intake;
  await eraseStoredMeanwhile(deps.mongo, personsIn(notifications, input), { now: deps.now(), read });
  return { kind: 'replayed', event };
}

/** Stores rows that belong to no event, and whom the request did not notify. */
export async function fanOutRows(
  deps: NotificationDeps,
  input: FanOutInput<null>,
  { requestId }: { requestId: string },
): Promise<FannedOut<null>> {
  return fanOut(
    deps,
    input,
    () => null,
    (plan, now) => storeSuppressed(deps.mongo, suppressedOf(plan), { requestId, now }),
  );
}

/** The facts of a fan-out that its event stores. */
interface EventFacts extends Pick<FanOutPlan, 'suppressed'> {
  id: string;
  now: Date;
  created: number;
  erased: ErasedIds;
}

/**
 * Stores rows and their event, or finds that a concurrent call has stored the event. One commit stores event, rows, delivery
 * jobs and the command that sends the audit service its copy. The later steps (rings, wakes of live streams) may be lost. `before`
 * runs before that commit.
 */
async function fanOut<Stored extends NotificationEvent | null>(
  deps: NotificationDeps,
  input: FanOutInput<EventInput | null>,
  eventOf: (facts: EventFacts) => Stored,
  before: (plan: FanOutPlan, now: number) => Promise<void> = async () => undefined,
): Promise<FannedOut<Stored>> {
  const recipients = input.notifications.map(({ userId }) => userId);
  const persons = personsIn(input.notifications, input.event);
  const [preferences, erased] = await Promise.all([
    deps.intake.preferencesOf(recipients),
    deps.intake.erasedAmong(persons),
  ]);
  const now = deps.now();
  const fanOutId = newId(now);
  const ids = await inPieces(orderedIds(input.notifications.length, now));
  const facts = { fanOutId, now: new Date(now), newId: () => ids.next().value ?? newId(now) };
  const plan = await inPieces(planFanOut({ ...input, preferences, erased }, facts));
  const eventFor = ({ rows, suppressed }: FanOutPlan, gone: ErasedIds) =>
    eventOf({ id: fanOutId, now: facts.now, created: rows.length, suppressed, erased: gone });
  const event = eventFor(plan, erased);
  await before(plan, now);
  const inserted = await deps.intake.insert({
    fanOutId,
    event,
    now,
    rows: plan.rows,
    staged: plan.staged,
    deliveries: { channels: deps.channels, maxAttempts: deps.deliveryAttempts, preferences },
    finish: newCommand({ ...finishFanOutOrder(fanOutId), maxAttempts: deps.commandAttempts, now }),
    ...(event === null || !deps.isAudited
      ? {}
      : { audit: newCommand({ ...auditOrder(fanOutId), maxAttempts: EVENT_ATTEMPTS, now }) }),
  });
  if (inserted.kind === 'replayed') return replayed(deps, input, inserted.event);
  const late = await eraseStoredMeanwhile(deps.mongo, persons, { known: erased, now, read: deps.intake.erasedAmong });
  const left = planWithout(plan, late);
  const stored = late.size === 0 ? event : eventFor(left, erased.union(late));
  ringFor(deps, inserted.ring);
  deps.notifyStreams(left.rows.map(({ userId }) => userId));
  return { kind: 'made', event: stored, plan: left };
}

/**
 * Returns ids in ascending order. Rows of one fan-out share their time, so the id makes a later row of the request the newer one.
 */
function* orderedIds(count: number, now: number): Pieces<ArrayIterator<string>> {
  const ids: string[] = [];
  for (let made = 0; made < count; made++) {
    ids.push(newId(now));
    yield;
  }
  return ids.sort().values();
}

async function knownEvent(
  deps: NotificationDeps,
  { sourceService, sourceEventId, actorId = null }: EventInput,
  keyedByActor: boolean,
): Promise<NotificationEvent | null> {
  if (!sourceService || !sourceEventId) return null;
  return deps.intake.findEvent({ sourceService, sourceEventId, actorId: keyedByActor ? actorId : null });
}
