import type { FaultDetail } from '#shared/kernel/errors.ts';
import { isJsonObject } from '#shared/kernel/json-object.ts';
import type { EventInput } from './event.ts';
import type { NotificationInput } from './notification.ts';

const WEAK_TOPIC_TYPE = 'WEAK_TOPIC_ALERT';
const WEAK_TOPIC_EVENT = 'analytics.weak_topic_alert.v1';
const TITLE = 'Cảnh báo chủ đề yếu';

/** A topic in which a student is weak, and the parents to be told of it. */
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

/** The parents of both lists, each once, in the order in which they are first named. */
function parentsOf(alert: Pick<WeakTopic, 'parentIds' | 'recipientIds'>): string[] {
  return [...new Set([...(alert.parentIds ?? []), ...(alert.recipientIds ?? [])])];
}

/** The event and the rows that an alert stands for; title and content are those of the previous system. */
export function weakTopicFanOut(alert: WeakTopic): { event: EventInput; notifications: NotificationInput[] } {
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
      targetUserIds: parents,
      payload: about,
    },
    notifications: parents.map((userId) => ({
      userId,
      type: WEAK_TOPIC_TYPE,
      title: TITLE,
      content: `Học sinh ${alert.studentName ?? alert.studentId} cần củng cố chủ đề "${alert.topic}".`,
      entity: 'Student',
      entityId: alert.studentId,
      data: about,
    })),
  };
}

/** An event names both halves of its replay key or neither: one alone would promise what nobody keeps. */
export function sourcePairFaults(
  { sourceService, sourceEventId }: { sourceService?: unknown; sourceEventId?: unknown },
  at = '',
): FaultDetail[] {
  const hasService = isThere(sourceService);
  if (hasService === isThere(sourceEventId)) return [];
  const missing = hasService ? 'sourceEventId' : 'sourceService';
  return [{ path: `${at}/${missing}`, message: 'is required beside the other half of the replay key' }];
}

/** Somebody must be told. */
export function recipientFaults(alert: Parameters<typeof parentsOf>[0]): FaultDetail[] {
  return parentsOf(alert).length > 0 ? [] : [{ path: '/parentIds', message: 'must name at least one parent' }];
}

/** The same of bodies that are refused already, of whatever shape: a fault that stands at the place is not told twice. */
export function eventFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  return isJsonObject(body) ? unknownTo(known, sourcePairFaults(body)) : [];
}

export function batchFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  return isJsonObject(body) && isJsonObject(body.event) ? unknownTo(known, sourcePairFaults(body.event, '/event')) : [];
}

export function weakTopicFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const names = [body.parentIds, body.recipientIds].some(
    (ids) => isThere(ids) && !(Array.isArray(ids) && ids.length === 0),
  );
  return names ? [] : unknownTo(known, recipientFaults({}));
}

function unknownTo(known: readonly FaultDetail[], faults: readonly FaultDetail[]): FaultDetail[] {
  const told = new Set(known.map(({ path }) => path));
  return faults.filter(({ path }) => !told.has(path));
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}
