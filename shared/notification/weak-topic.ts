import { type FaultDetail, unknownTo } from '#shared/kernel/errors.ts';
import { isJsonObject } from '#shared/kernel/json-object.ts';
import type { EventInput } from './event.ts';
import type { NotificationInput } from './notification.ts';

const WEAK_TOPIC_TYPE = 'WEAK_TOPIC_ALERT';
const WEAK_TOPIC_EVENT = 'analytics.weak_topic_alert.v1';
const TITLE = 'Cảnh báo chủ đề yếu';

/** An alert about a topic in which a student is weak, with the parents to notify. */
interface WeakTopic {
  sourceService: string;
  sourceEventId: string;
  studentId: string;
  topic: string;
  parentIds?: readonly string[] | null;
  recipientIds?: readonly string[] | null;
  studentName?: string | null;
  score?: number | null;
  organizationId?: string | null;
}

/** Returns the parents of both lists without duplicates, in the order of their first occurrence. */
function parentsOf(alert: Pick<WeakTopic, 'parentIds' | 'recipientIds'>): string[] {
  return [...new Set([...(alert.parentIds ?? []), ...(alert.recipientIds ?? [])])];
}

/** Calls in one hour by which an actor may send alerts. Each call may reach 2,000 users. */
export const ALERT_CALLS_AN_HOUR = 60;

/**
 * Returns the event and the notifications of an alert. Title and content are those of the previous system. `actorId` names the
 * user who sent it; null: a service sent it.
 */
export function weakTopicFanOut(
  alert: WeakTopic,
  actorId: string | null,
): { event: EventInput; notifications: NotificationInput[] } {
  const parents = parentsOf(alert);
  const about = { studentId: alert.studentId, topic: alert.topic, score: alert.score ?? null };
  return {
    event: {
      sourceService: alert.sourceService,
      sourceEventId: alert.sourceEventId,
      type: WEAK_TOPIC_EVENT,
      preferenceType: WEAK_TOPIC_TYPE,
      entity: 'Student',
      entityId: alert.studentId,
      organizationId: alert.organizationId ?? null,
      actorId,
      targetUserIds: parents,
      payload: about,
    },
    notifications: parents.map((userId) => ({
      userId,
      type: WEAK_TOPIC_TYPE,
      title: TITLE,
      content: `Học sinh ${alert.studentName ?? alert.studentId} cần củng cố chủ đề "${alert.topic}".`,
      actorId,
      entity: 'Student',
      entityId: alert.studentId,
      data: about,
    })),
  };
}

/** Returns a fault if the alert names no parent. */
export function recipientFaults(alert: Parameters<typeof parentsOf>[0]): FaultDetail[] {
  return parentsOf(alert).length > 0 ? [] : [{ path: '/parentIds', message: 'must name at least one parent' }];
}

/** Returns the `recipientFaults` of a body of any shape that failed its schema. Places of `known` schema faults are omitted. */
export function weakTopicFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const names = [body.parentIds, body.recipientIds].some(
    (ids) => ids !== undefined && ids !== null && !(Array.isArray(ids) && ids.length === 0),
  );
  return names ? [] : unknownTo(known, recipientFaults({}));
}
