import { type FaultDetail, unknownTo } from '#shared/kernel/errors.ts';
import { isJsonObject, JsonPart } from '#shared/kernel/json.ts';
import type { Suppression, SuppressionReason } from './preferences.ts';

/** A producer's event as it is stored. `_id` is also the id of its fan-out. */
export interface NotificationEvent {
  _id: string;
  sourceService: string | null;
  sourceEventId: string | null;
  /** True if the pair `sourceService` and `sourceEventId` is the replay key, which all services share. It is unique forever. */
  replayable: boolean;
  /** True if pair and `actorId` are the replay key, which belongs to that actor. */
  replayableByActor: boolean;
  type: string | null;
  preferenceType: string | null;
  entity: string | null;
  entityId: string | null;
  organizationId: string | null;
  actorId: string | null;
  targetUserIds: readonly string[] | null;
  /** JSON text. */
  payload: string | null;
  /** Number of notification rows that the event created. */
  created: number;
  /** The recipients that were not notified, with the reason: the first MAX_SUPPRESSED. Absent without any. */
  suppressed?: readonly StoredSuppression[];
  /** Number of all such recipients, by reason. Absent without any. */
  suppressedCounts?: Readonly<Partial<Record<SuppressionReason, number>>>;
  /** True if `type` begins with `support.`; stored so that an index can answer for it. */
  isSupport: boolean;
  createdAt: Date;
}

/** An erased recipient is counted and never listed: nothing is stored under the id. */
export interface StoredSuppression {
  userId: string;
  reason: Exclude<SuppressionReason, 'ERASED'>;
}

/** Recipients that one event lists as suppressed, about 60 KB. Beyond that, an operator finds the number by reason only. */
export const MAX_SUPPRESSED = 1_000;

export interface EventInput {
  sourceService?: string | null;
  sourceEventId?: string | null;
  type?: string | null;
  preferenceType?: string | null;
  entity?: string | null;
  entityId?: string | null;
  organizationId?: string | null;
  actorId?: string | null;
  targetUserIds?: readonly string[] | null;
  payload?: Record<string, unknown> | null;
}

/** Returns the stored form of an event. `keyedByActor`: its replay key belongs to its actor; default: all services share it. */
export function newEvent(
  input: EventInput,
  facts: {
    id: string;
    now: Date;
    created: number;
    organizationId: string | null;
    keyedByActor?: boolean;
    /** Default: none. */
    suppressed?: readonly Suppression[];
    /** The JSON of the payload, which takes a while to write if it is large. Default: it is written here. */
    payloadText?: string;
  },
): NotificationEvent {
  const sourceService = input.sourceService ?? null;
  const sourceEventId = input.sourceEventId ?? null;
  const type = input.type ?? null;
  const { keyedByActor = false } = facts;
  const hasPair = sourceService !== null && sourceEventId !== null;
  return {
    _id: facts.id,
    sourceService,
    sourceEventId,
    replayable: hasPair && !keyedByActor,
    replayableByActor: hasPair && keyedByActor,
    type,
    preferenceType: input.preferenceType ?? null,
    entity: input.entity ?? null,
    entityId: input.entityId ?? null,
    organizationId: input.organizationId ?? facts.organizationId,
    actorId: input.actorId ?? null,
    targetUserIds: input.targetUserIds ?? null,
    payload: input.payload == null ? null : (facts.payloadText ?? JSON.stringify(input.payload)),
    created: facts.created,
    ...suppressedPart(facts.suppressed ?? []),
    isSupport: type?.startsWith('support.') ?? false,
    createdAt: facts.now,
  };
}

/** Returns what an event stores of its suppressed recipients: nothing, or a bounded list and the counts of all. */
function suppressedPart(
  suppressed: readonly Suppression[],
): Pick<NotificationEvent, 'suppressed' | 'suppressedCounts'> {
  if (suppressed.length === 0) return {};
  const counts: Partial<Record<SuppressionReason, number>> = {};
  for (const { reason } of suppressed) counts[reason] = (counts[reason] ?? 0) + 1;
  const listed = suppressed.flatMap(({ userId, reason }) => (reason === 'ERASED' ? [] : [{ userId, reason }]));
  return { suppressed: listed.slice(0, MAX_SUPPRESSED), suppressedCounts: counts };
}

/** Key by which a repeated event is recognized. */
export interface ReplayKey {
  sourceService: string;
  sourceEventId: string;
  /** The only actor who uses this key; null: all services share it. */
  actorId: string | null;
}

/** Returns the replay key of a stored event, or null if it has none. */
export function replayKeyOf(event: NotificationEvent): ReplayKey | null {
  const { sourceService, sourceEventId, actorId, replayableByActor } = event;
  if (sourceService === null || sourceEventId === null) return null;
  return { sourceService, sourceEventId, actorId: replayableByActor ? actorId : null };
}

/** Returns the key as one text. Keys of an actor begin with a bracket; no service's name does. */
export function replayKeyText({ sourceService, sourceEventId, actorId }: ReplayKey): string {
  const ref = `${sourceService}:${sourceEventId}`;
  return actorId === null ? ref : JSON.stringify([actorId, ref]);
}

/** Returns the reference that rows store to their event, or null if the event has no replay key. */
export function sourceEventRef(input: Pick<EventInput, 'sourceService' | 'sourceEventId'>): string | null {
  const { sourceService, sourceEventId } = input;
  if (sourceService === undefined || sourceService === null) return null;
  return sourceEventId === undefined || sourceEventId === null ? null : `${sourceService}:${sourceEventId}`;
}

/** Returns an event as a reply shows it. */
export function eventView(event: NotificationEvent) {
  return {
    id: event._id,
    sourceService: event.sourceService,
    sourceEventId: event.sourceEventId,
    type: event.type,
    preferenceType: event.preferenceType,
    entity: event.entity,
    entityId: event.entityId,
    organizationId: event.organizationId,
    actorId: event.actorId,
    targetUserIds: event.targetUserIds,
    payload: event.payload === null ? null : new JsonPart(event.payload),
    createdAt: event.createdAt.toISOString(),
  };
}

export const NOTIFICATION_SERVICE = 'notification-service';

export type AuditEvent = ReturnType<typeof auditEvent>;

/** Returns the audit service's record of an event: who did what, without titles, contents or the payload. */
export function auditEvent(event: NotificationEvent) {
  return {
    sourceService: NOTIFICATION_SERVICE,
    sourceEventId: event._id,
    type: event.type,
    category: 'DOMAIN',
    severity: 'INFO',
    metadataSchemaVersion: 1,
    retentionPolicy: 'notification-events',
    occurredAt: event.createdAt.toISOString(),
    organizationId: event.organizationId,
    actorId: event.actorId,
    entity: event.entity,
    entityId: event.entityId,
    metadata: {
      producer: event.sourceService,
      producerEventId: event.sourceEventId,
      preferenceType: event.preferenceType,
      created: event.created,
    },
  };
}

/** Returns a fault if an event names only one half of its replay key, because half a key cannot detect a repeat. */
export function sourcePairFaults(
  { sourceService, sourceEventId }: { sourceService?: unknown; sourceEventId?: unknown },
  at = '',
): FaultDetail[] {
  const hasService = isThere(sourceService);
  if (hasService === isThere(sourceEventId)) return [];
  const missing = hasService ? 'sourceEventId' : 'sourceService';
  return [
    {
      path: `${at}/${missing}`,
      message: 'is required: `sourceService` and `sourceEventId` form the replay key together',
    },
  ];
}

/** Returns the `sourcePairFaults` of a body of any shape that failed its schema. Places of `known` schema faults are omitted. */
export function eventFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  return isJsonObject(body) ? unknownTo(known, sourcePairFaults(body)) : [];
}

/** Returns the faults of the event in a batch that its schema does not detect. Places of `known` faults are omitted. */
export function batchFaults(body: unknown, known: readonly FaultDetail[]): FaultDetail[] {
  return isJsonObject(body) && isJsonObject(body.event) ? unknownTo(known, sourcePairFaults(body.event, '/event')) : [];
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Services that may call the internal routes, named as in `X-Internal-Service`. */
export const SENDERS = [
  'admin-service',
  'attempt-service',
  'auth-service',
  'bff-service',
  'classroom-service',
  'exam-service',
] as const;
export type Sender = (typeof SENDERS)[number];

/** Services that produce events. They may also create notifications, snapshots and delivery attempts. */
export const PRODUCERS: readonly Sender[] = ['admin-service', 'attempt-service', 'classroom-service', 'exam-service'];

/** Services that create notifications: the producers, and the auth service for the owners of accounts. */
export const CREATORS: readonly Sender[] = [...PRODUCERS, 'auth-service'];

/** The service that may read the support summary, for its dashboard. */
export const ADMIN_SERVICE: Sender = 'admin-service';

/** The only service that may send weak-topic alerts. */
export const WEAK_TOPIC_SENDER: Sender = 'bff-service';
