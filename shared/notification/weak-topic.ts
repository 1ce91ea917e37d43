import { type FaultDetail, unknownTo } from '#shared/kernel/errors.ts';
import { isJsonObject } from '#shared/kernel/json.ts';
import { compatible } from '#shared/kernel/text.ts';
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

/** Returns the id of the user who reported the topic of an alert; null: a service did, or it is no alert. */
export function reporterOf({ type, actorId }: Pick<NotificationInput, 'type' | 'actorId'>): string | null {
  return type === WEAK_TOPIC_TYPE ? (actorId ?? null) : null;
}

/** Returns the parents of both lists without duplicates, in the order of their first occurrence. */
function parentsOf(alert: Pick<WeakTopic, 'parentIds' | 'recipientIds'>): string[] {
  return [...new Set([...(alert.parentIds ?? []), ...(alert.recipientIds ?? [])])];
}

/** Calls in one hour by which an actor may report topics. */
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

/** Returns a fault if a body of any shape names no parent. Places of `known` schema faults are omitted. */
export function weakTopicFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const names = [body.parentIds, body.recipientIds].some(
    (ids) => ids !== undefined && ids !== null && !(Array.isArray(ids) && ids.length === 0),
  );
  return names ? [] : unknownTo(known, [{ path: '/parentIds', message: 'must name at least one parent' }]);
}

/** Recipients of one alert that a user reports: the parents of one student. */
const MAX_REPORTED_TO = 20;

/**
 * Returns the faults of a body of any shape that a user reports. Its texts leave in e-mails of the school, so they are neither further
 * paragraphs nor links. Places of `known` schema faults are omitted, and too long texts with them.
 */
export function reportedTopicFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  if (!isJsonObject(body)) return [];
  const faults = weakTopicFaults(body, known);
  const isFaulty = new Set(known.map(({ path }) => path));
  const ids = ['parentIds', 'recipientIds'].flatMap((field) => (isFaulty.has(`/${field}`) ? [] : (body[field] ?? [])));
  if (new Set(ids).size > MAX_REPORTED_TO) {
    const message = `must name at most ${MAX_REPORTED_TO} recipients together with \`parentIds\``;
    faults.push({ path: '/recipientIds', message });
  }
  const shownAs = body.studentName == null ? 'studentId' : 'studentName';
  for (const field of ['topic', shownAs]) {
    const [text, path] = [body[field], `/${field}`];
    const message = typeof text === 'string' && !isFaulty.has(path) ? shownFault(text) : null;
    if (message !== null) faults.push({ path, message: `is shown to the recipients, and ${message}` });
  }
  return unknownTo(known, faults);
}

function shownFault(text: string): string | null {
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) return 'must be one line without control and format characters';
  return namesPage(text) ? 'must contain no address of a page, such as a dot between letters' : null;
}

/** A scheme, `www.`, or a name of a host: a letter, perhaps digits, a dot and two letters. Mail programs make links of them. */
const PAGE = /:\/\/|www\.|\p{L}[\p{N}_-]*\.\p{L}{2}/iu;

function namesPage(text: string): boolean {
  // Full-width forms become plain ones. Marks and invisible characters would break up a host name for this rule alone.
  const plain = compatible(text).replaceAll(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '');
  return PAGE.test(plain.replaceAll('。', '.'));
}
