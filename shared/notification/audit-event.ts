import type { NotificationEvent } from './event.ts';

export const NOTIFICATION_SERVICE = 'notification-service';

/** What the audit service is told of an event: who and what, never titles, contents or the payload. */
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
