import type { Mongo } from '#infra/mongo/connect.ts';
import { erasedPersons, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { preferences } from '#infra/mongo/notification/collections.ts';
import { insertNotification } from '#infra/mongo/notification/inbox-changes.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { newId } from '#shared/kernel/ids.ts';
import { freshNotification } from './stored-notifications.ts';

/** Erases a person who has no rows, stores rows as a front door does that is killed before it reads the tombstones again, and returns the id. */
export async function storeErasedMeanwhile(mongo: Mongo): Promise<string> {
  const id = `person-${newId()}`;
  await erasePerson(mongo, id, { operator: 'an', reason: 'request by letter', now: Date.now() });
  const now = Date.now();
  const deliveries = { channels: new Set(['log'] as const), maxAttempts: 3 };
  await insertNotification(mongo, freshNotification({ userId: id }), { deliveries, now });
  await insertNotification(mongo, freshNotification({ userId: 'parent-1', entityId: id }), { deliveries, now });
  await preferences(mongo).insertOne({ _id: id, enabledTypes: {}, mutedUntil: null, updatedAt: new Date(now) });
  return id;
}

/** Makes the second pass of a person's erasure due. */
export async function makePassDue(mongo: Mongo, id: string): Promise<void> {
  const at = new Date(Date.now() - 60_000);
  await erasedPersons(mongo).updateOne(
    { _id: await tombstoneId(mongo, id), again: { $exists: true } },
    { $set: { 'again.at': at } },
  );
}
