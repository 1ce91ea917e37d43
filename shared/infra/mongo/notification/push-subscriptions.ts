import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { putRow } from '#infra/mongo/guarded-row.ts';
import { MAX_SUBSCRIPTIONS, type PushSubscription } from '#shared/notification/push.ts';
import { type PushSubscriptionRow, pushSubscriptions } from './collections.ts';

const BOUND = { maxTimeMS: QUERY_LIMIT_MS };
/** Rows of one user that a registration reads. Only registrations at the same moment store more than MAX_SUBSCRIPTIONS. */
const MAX_READ = 10 * MAX_SUBSCRIPTIONS;

/** Returns the browsers that a user has registered, oldest first. */
export async function subscriptionsOf(mongo: Mongo, userId: string): Promise<PushSubscription[]> {
  const newest = await newestOf(mongo, userId, MAX_SUBSCRIPTIONS);
  return newest.toReversed().map(({ _id: id, userId: _, ...subscription }) => ({ id, ...subscription }));
}

function newestOf(mongo: Mongo, userId: string, limit: number): Promise<PushSubscriptionRow[]> {
  return pushSubscriptions(mongo)
    .find({ userId }, { ...BOUND, sort: { createdAt: -1, _id: -1 }, limit })
    .toArray();
}

/**
 * Stores a browser of a user. The same browser replaces its earlier keys, and its earlier user: one browser has one row, so that it gets the
 * messages of the last user only. A browser beyond MAX_SUBSCRIPTIONS replaces the user's oldest.
 */
export async function storeSubscription(mongo: Mongo, userId: string, subscription: PushSubscription): Promise<void> {
  const { id: _id, ...facts } = subscription;
  await putRow(pushSubscriptions(mongo), { _id, userId, ...facts });
  const over = (await newestOf(mongo, userId, MAX_READ)).slice(MAX_SUBSCRIPTIONS);
  const [newest] = over;
  if (newest === undefined) return;
  // One that was registered again since the read has a later time, and one that has another user now is not theirs.
  const dropped = { _id: { $in: over.map(({ _id }) => _id) }, userId, createdAt: { $lte: newest.createdAt } };
  await pushSubscriptions(mongo).deleteMany(dropped, BOUND);
}

/** Deletes a browser of a user. Returns false if the user has none with this id. */
export async function deleteSubscription(mongo: Mongo, userId: string, id: string): Promise<boolean> {
  return (await pushSubscriptions(mongo).deleteOne({ _id: id, userId }, BOUND)).deletedCount === 1;
}
