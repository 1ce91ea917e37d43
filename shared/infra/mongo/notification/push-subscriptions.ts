import type { Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { MAX_SUBSCRIPTIONS, type PushSubscription } from '#shared/notification/push.ts';
import { type PushSubscriptionsRow, pushSubscriptions } from './collections.ts';

/** Passes after which `storeSubscription` throws. Each further pass means that another browser was registered meanwhile. */
const MAX_PASSES = 10;

/** Returns the browsers that a user has registered, oldest first. */
export async function subscriptionsOf(mongo: Mongo, userId: string): Promise<PushSubscription[]> {
  const row = await pushSubscriptions(mongo).findOne({ _id: userId }, { maxTimeMS: QUERY_LIMIT_MS });
  return row?.subscriptions ?? [];
}

/** Stores a browser of a user. The same browser replaces its earlier keys; one beyond MAX_SUBSCRIPTIONS replaces the oldest. */
export async function storeSubscription(mongo: Mongo, userId: string, subscription: PushSubscription): Promise<void> {
  const dropped = [subscription.id];
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const left = without(dropped);
    const update = guardedUpdate([{ $lt: [{ $size: left }, MAX_SUBSCRIPTIONS] }], {
      subscriptions: { $concatArrays: [left, [literal(subscription)]] },
    });
    const row = await updateRow(pushSubscriptions(mongo), emptyRow(userId), update);
    if (wasAccepted(update, row)) return;
    const oldest = row.subscriptions.find(({ id }) => !dropped.includes(id));
    if (oldest !== undefined) dropped.push(oldest.id);
  }
  throw new Error('the push subscriptions of a user changed too often');
}

/** Deletes a browser of a user. Returns false if the user has none with this id. */
export async function deleteSubscription(mongo: Mongo, userId: string, id: string): Promise<boolean> {
  const known = { $ne: [{ $size: without([id]) }, { $size: '$subscriptions' }] };
  const update = guardedUpdate([known], { subscriptions: without([id]) });
  const row = await pushSubscriptions(mongo).findOneAndUpdate({ _id: userId }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  return wasAccepted(update, row);
}

function without(ids: readonly string[]): Document {
  const isOther = { $and: ids.map((id) => ({ $ne: ['$$this.id', literal(id)] })) };
  return { $filter: { input: '$subscriptions', cond: isOther } };
}

function emptyRow(userId: string): PushSubscriptionsRow {
  return { _id: userId, subscriptions: [] };
}
