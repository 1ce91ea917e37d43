import type { EventInput } from './event.ts';
import type { NotificationInput } from './notification.ts';

/** Ids of erased persons, among those that a request names. */
export type ErasedIds = ReadonlySet<string>;

/** The fields of a notification, or of the input of one, that may name persons. */
type NamesPersons = Pick<NotificationInput, 'userId' | 'entityId' | 'actorId'>;

/** Returns every id in a request that may belong to a person. */
export function personsIn(notifications: readonly NamesPersons[], event: EventInput | null): string[] {
  const ids = notifications.flatMap(({ userId, entityId, actorId }) => [userId, entityId, actorId]);
  const ofEvent = event === null ? [] : [event.entityId, event.actorId, ...(event.targetUserIds ?? [])];
  return [...new Set([...ids, ...ofEvent].filter((id) => id !== undefined && id !== null))];
}

/** Returns true if the notification is to an erased person or about one. */
export function concernsErased({ userId, entityId }: NamesPersons, erased: ErasedIds): boolean {
  return erased.has(userId) || isErasedId(entityId, erased);
}

/** Returns a notification, or the input of one, without an erased actor. */
export function withoutErasedActor<Named extends NamesPersons>(named: Named, erased: ErasedIds): Named {
  return isErasedId(named.actorId, erased) ? { ...named, actorId: null } : named;
}

/**
 * Returns an event without erased persons. Its replay key stays. Of an event about an erased person, only the key, the type and the
 * producer stay.
 */
export function withoutErased(event: EventInput, erased: ErasedIds): EventInput {
  const { entityId, actorId, targetUserIds } = event;
  const isAbout = isErasedId(entityId, erased);
  return {
    ...event,
    ...(isAbout ? { entityId: null, payload: null } : {}),
    ...(isErasedId(actorId, erased) ? { actorId: null } : {}),
    ...(targetUserIds == null ? {} : { targetUserIds: isAbout ? null : targetUserIds.filter((id) => !erased.has(id)) }),
  };
}

function isErasedId(id: string | null | undefined, erased: ErasedIds): boolean {
  return id !== undefined && id !== null && erased.has(id);
}
