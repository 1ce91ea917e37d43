import type { Filter } from 'mongodb';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import {
  deliveryAttempts,
  fanOuts,
  type NotificationRow,
  notificationEvents,
  notificationSuppressions,
  notifications,
  preferences,
  type SuppressionRow,
} from '#infra/mongo/notification/collections.ts';
import type { Command } from '#shared/kernel/command.ts';
import { auditOrder, finishFanOutOrder } from '#shared/notification/commands.ts';
import type { DeliveryAttempt } from '#shared/notification/delivery.ts';
import type { NotificationEvent } from '#shared/notification/event.ts';
import { reason, suppressionReason, type Why } from '#shared/operations/reasons.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import { addCommand, BOUND, CAP, capped, type Reading } from './reading.ts';

const EVENT = {
  sourceService: 1,
  sourceEventId: 1,
  type: 1,
  created: 1,
  createdAt: 1,
  suppressed: 1,
  suppressedCounts: 1,
};
type TracedEvent = Pick<
  NotificationEvent,
  '_id' | 'sourceService' | 'sourceEventId' | 'type' | 'created' | 'createdAt' | 'suppressed' | 'suppressedCounts'
>;

const ROW = { userId: 1, type: 1, place: 1, isRead: 1, readAt: 1, createdAt: 1, deletedAt: 1, fanOutId: 1 };
type TracedRow = Pick<
  NotificationRow,
  '_id' | 'userId' | 'type' | 'place' | 'isRead' | 'readAt' | 'createdAt' | 'deletedAt' | 'fanOutId'
>;

/** Rows that the trace of a user reads from the inbox, and events that it reads. */
const NEWEST = 50;

/** Adds the events that producers have sent under these keys, and what became of them. */
export async function addEventsOf(
  reading: Reading,
  { sourceService, sourceEventIds }: { sourceService: readonly string[]; sourceEventIds: readonly string[] },
): Promise<boolean> {
  if (sourceEventIds.length === 0) return false;
  const events = await notificationEvents(reading.mongo)
    .find<TracedEvent>(
      { sourceService: { $in: [...sourceService] }, sourceEventId: { $in: [...sourceEventIds] }, replayable: true },
      { ...BOUND, hint: 'replay_key', projection: EVENT, limit: CAP + 1 },
    )
    .toArray();
  await addEvents(reading, capped(reading, 'notification-event', events));
  return events.length > 0;
}

/** Adds the event of a fan-out, and what became of it. Returns false if it does not exist. */
export async function addEvent(reading: Reading, id: string): Promise<boolean> {
  const event = await notificationEvents(reading.mongo).findOne<TracedEvent>(
    { _id: id },
    { ...BOUND, projection: EVENT },
  );
  await addEvents(reading, event === null ? [] : [event]);
  return event !== null || (await addFanOuts(reading, [id])) > 0;
}

/** Adds one notification and its deliveries, with the event that created it. Returns false if it does not exist. */
export async function addNotification(reading: Reading, id: string): Promise<boolean> {
  const row = await notifications(reading.mongo).findOne<TracedRow>({ _id: id }, { ...BOUND, projection: ROW });
  if (row === null) return false;
  await addRows(reading, [row]);
  if (row.fanOutId === null) return true;
  const event = await notificationEvents(reading.mongo).findOne<TracedEvent>(
    { _id: row.fanOutId },
    { ...BOUND, projection: EVENT },
  );
  if (event !== null) addEventLine(reading, event, row.userId);
  return true;
}

/** Adds the newest notifications of a user, the events to the user, and the mute. Returns the number of what was found. */
export async function addInbox(reading: Reading, userId: string): Promise<number> {
  const { mongo, cluster, lines } = reading;
  const newest = { ...BOUND, limit: NEWEST + 1 };
  const byUser = { ...newest, projection: EVENT, sort: { _id: -1 as const } };
  const [rows, sent, dropped, single, own] = await Promise.all([
    notifications(mongo)
      .find<TracedRow>(
        { userId, place: { $in: ['INBOX', 'DELETED'] } },
        { ...newest, projection: ROW, sort: { createdAt: -1, _id: -1 } },
      )
      .toArray(),
    notificationEvents(mongo)
      .find<TracedEvent>({ targetUserIds: userId }, { ...byUser, hint: 'of_target' })
      .toArray(),
    notificationEvents(mongo)
      .find<TracedEvent>({ 'suppressed.userId': userId }, { ...byUser, hint: 'of_suppressed' })
      .toArray(),
    addSuppressed(reading, { userId }),
    preferences(mongo).findOne({ _id: userId }, BOUND),
  ]);
  await addRows(reading, capped(reading, 'notification', rows, NEWEST));
  const events = new Map([...sent, ...dropped].map((event) => [event._id, event]));
  for (const event of capped(reading, 'notification-event', [...events.values()], NEWEST))
    addEventLine(reading, event, userId);
  const mutedUntil = own?.mutedUntil ?? null;
  if (own?.updatedAt != null && mutedUntil !== null && mutedUntil.getTime() > cluster.now) {
    const why = reason('MUTED', `the user has muted notifications until ${mutedUntil.toISOString()}`);
    const about = { effect: 'not notified', reason: why, nextAt: mutedUntil } as const;
    lines.push(
      traceLine({ at: own.updatedAt, kind: 'suppression', id: userId, state: 'MUTED', about: userId, ...about }),
    );
  }
  return rows.length + events.size + single + (own === null ? 0 : 1);
}

/** Adds the newest notifications of no event that a user was not sent, or that a request did not create. Returns their number. */
export async function addSuppressed(
  reading: Reading,
  wanted: Pick<SuppressionRow, 'userId'> | Pick<SuppressionRow, 'requestId'>,
): Promise<number> {
  const rows = await notificationSuppressions(reading.mongo)
    .find(wanted, { ...BOUND, sort: { at: -1 }, limit: CAP + 1 })
    .toArray();
  for (const { _id: id, at, reason: state, type: what, userId: about, requestId } of capped(
    reading,
    'suppression',
    rows,
  )) {
    const why: Why = { reason: suppressionReason(state), effect: 'not notified' };
    reading.lines.push(traceLine({ at, kind: 'suppression', id, state, what, about, requestId, ...why }));
  }
  return rows.length;
}

async function addEvents(reading: Reading, events: readonly TracedEvent[]): Promise<void> {
  for (const event of events) addEventLine(reading, event, null);
  const ids = events.map(({ _id }) => _id);
  if (ids.length === 0) return;
  await addFanOuts(reading, ids);
  const rows = await notifications(reading.mongo)
    .find<TracedRow>({ fanOutId: { $in: ids } }, { ...BOUND, projection: ROW, limit: CAP + 1 })
    .toArray();
  await addRows(reading, capped(reading, 'notification', rows));
}

/** Adds an event and the recipients whom it did not notify: of one user, or of all. */
function addEventLine(reading: Reading, event: TracedEvent, userId: string | null): void {
  const { _id: id, createdAt: at, type: what, sourceEventId: about, created } = event;
  const state = `CREATED ${created}`;
  reading.lines.push(traceLine({ at, kind: 'notification-event', id, state, what, about }));
  const suppressed = (event.suppressed ?? []).filter((one) => userId === null || one.userId === userId);
  for (const one of capped(reading, 'suppression', suppressed)) {
    const why: Why = { reason: suppressionReason(one.reason), effect: 'not notified' };
    reading.lines.push(
      traceLine({ at, kind: 'suppression', id: `${id}:${one.userId}`, state: one.reason, about: one.userId, ...why }),
    );
  }
  const listed = event.suppressed?.length ?? 0;
  const all = Object.values(event.suppressedCounts ?? {}).reduce((sum, count) => sum + count, 0);
  if (all > listed) reading.cut.add('suppression');
}

/** Adds the fan-outs of these events, and the commands that finish them and report the events to the audit service. */
async function addFanOuts(reading: Reading, ids: readonly string[]): Promise<number> {
  const [rows, commands] = await Promise.all([
    fanOuts(reading.mongo)
      .find({ _id: { $in: [...ids] } }, { ...BOUND, projection: { source: 0 } })
      .toArray(),
    eventCommands(reading, ids),
  ]);
  for (const { _id: id, state, rows: total, staged, stageBy, publishedAt: endedAt } of rows) {
    const text = `${staged} of ${total} rows are staged; it is visible to no reader before all are`;
    const why: Why = state === 'PUBLISHED' ? {} : { effect: 'not notified', reason: reason('STAGING', text) };
    reading.lines.push(traceLine({ at: endedAt ?? stageBy, kind: 'fan-out', id, state, endedAt, ...why }));
  }
  for (const command of commands) addCommand(reading, command);
  return rows.length;
}

function eventCommands({ mongo }: Reading, ids: readonly string[]): Promise<Command[]> {
  const keys = ids.flatMap((id) => [finishFanOutOrder(id).key, auditOrder(id).key]);
  return mongo.db
    .collection<Command>('commands')
    .find({ key: { $in: keys }, live: true }, BOUND)
    .toArray() as Promise<Command[]>;
}

/** Adds notifications, their deliveries, and the attempts of those. */
async function addRows(reading: Reading, rows: readonly TracedRow[]): Promise<void> {
  for (const row of rows) {
    const { _id: id, createdAt: at, type: what, userId: about, readAt: endedAt } = row;
    const isDeleted = row.place === 'DELETED';
    const isStaged = !isDeleted && row.place !== 'INBOX';
    const state = isDeleted ? 'DELETED' : isStaged ? 'STAGED' : row.isRead ? 'READ' : 'UNREAD';
    reading.lines.push(
      traceLine({ at, kind: 'notification', id, state, what, about, endedAt: isDeleted ? row.deletedAt : endedAt }),
    );
  }
  const ids = rows.map(({ _id }) => _id);
  if (ids.length === 0) return;
  await addDeliveries(reading, { subject: { $in: ids } });
  await addDeliveryAttempts(reading, {
    notificationId: { $in: ids },
    userId: { $in: [...new Set(rows.map(({ userId }) => userId))] },
  });
}

async function addDeliveries(reading: Reading, filter: Filter<Command>): Promise<void> {
  const jobs = await reading.mongo.db
    .collection<Command>(DELIVERIES)
    .find(filter, { ...BOUND, limit: CAP + 1 })
    .toArray();
  for (const job of capped(reading, 'delivery', jobs as Command[])) addCommand(reading, job);
}

/** The stored error is not shown: a service that reports its own attempts may write anything into it, also about a person. */
const FAILED_ATTEMPT = [
  'FAILED',
  'the attempt failed',
  'an ADMIN reads its error at `GET /v1/delivery-attempts`',
] as const;

async function addDeliveryAttempts(reading: Reading, filter: Filter<DeliveryAttempt>): Promise<void> {
  const found = await deliveryAttempts(reading.mongo)
    // Not every planner chooses this index if the filter has two lists.
    .find(filter, { ...BOUND, hint: 'of_notification', limit: CAP + 1, projection: { metadata: 0 } })
    .toArray();
  for (const row of capped(reading, 'delivery-attempt', found)) {
    const { _id: id, createdAt: at, status: state, channel: what, notificationId: about, nextRetryAt: nextAt } = row;
    const why = row.error === null ? {} : { reason: reason(...FAILED_ATTEMPT) };
    const attempt = { n: row.attempt, max: row.attempt };
    reading.lines.push(
      traceLine({
        at,
        kind: 'delivery-attempt',
        id,
        state,
        what,
        about,
        attempt,
        nextAt,
        endedAt: row.updatedAt,
        ...why,
      }),
    );
  }
}
