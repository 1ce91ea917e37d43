import { type Call, type Reply, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import {
  deleteSubscription,
  storeSubscription,
  subscriptionsOf,
} from '#infra/mongo/notification/push-subscriptions.ts';
import { eraseStoredMeanwhile } from '#infra/mongo/person/stored-meanwhile.ts';
import type { PushSubscriptionRequest } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { subscriptionFaults, subscriptionOf, subscriptionView } from '#shared/notification/push.ts';
import { callerOf, type NotificationDeps } from './deps.ts';
import { users } from './door-guards.ts';

const ROUTE = '/v1/push-subscriptions';
const PUSH: Tag = {
  name: 'Notification: push messages',
  description: 'Browsers of a user that get push messages (RFC 8030).',
};

/** Routes by which the pages of a user register the browser for push messages. */
export function pushRoutes(deps: NotificationDeps): Route[] {
  const guards = users();
  return [
    {
      method: 'GET',
      path: '/v1/push-key',
      operation: 'readPushKey',
      summary: 'Get the public key with which a page subscribes to push messages',
      description:
        'Returns the `applicationServerKey` of the Push API. It is null where no push messages are configured, and the page then offers none.',
      tag: PUSH,
      guards,
      replies: [
        { status: 200, schema: 'notification/push-key', description: 'Public key; null without a configured one' },
      ],
      errors: [],
      handle: async () => ({ status: 200, data: { publicKey: deps.pushKey } }),
    },
    {
      method: 'GET',
      path: ROUTE,
      operation: 'listPushSubscriptions',
      summary: "List the caller's browsers that get push messages",
      description:
        'Lists the browsers that the caller has registered, at most ten, oldest first. The keys of a browser are in no reply.',
      tag: PUSH,
      guards,
      replies: [
        {
          status: 200,
          schema: 'notification/push-subscription-list',
          description: 'Browsers of the caller, oldest first',
        },
      ],
      errors: [],
      handle: (call) => listSubscriptions(deps, call),
    },
    {
      method: 'POST',
      path: ROUTE,
      operation: 'addPushSubscription',
      summary: 'Register a browser of the caller for push messages',
      description:
        'Stores the `PushSubscription` of a browser as the page gets it. Its host has to be that of a push service that the operator allows. A repeat with the same endpoint replaces its keys. The browser leaves any other user, whose messages it gets no longer. An eleventh browser replaces the oldest one.',
      tag: PUSH,
      guards,
      body: { schema: 'notification/push-subscription-request', maxBytes: SMALL_BODY },
      replies: [{ status: 201, schema: 'notification/push-subscription-reply', description: 'Registered browser' }],
      errors: [],
      handle: (call) => addSubscription(deps, call),
    },
    {
      method: 'DELETE',
      path: `${ROUTE}/:subscriptionId`,
      params: { subscriptionId: 'Id of the registered browser' },
      operation: 'deletePushSubscription',
      summary: 'Remove a browser of the caller',
      description:
        'Removes a browser, which then gets no push messages. `deleted` is 0 if the caller has no such browser, so that a repeat succeeds.',
      tag: PUSH,
      guards,
      replies: [
        { status: 200, schema: 'notification/deleted-reply', description: 'Number of browsers removed: 1 or 0' },
      ],
      errors: [],
      handle: (call) => removeSubscription(deps, call),
    },
  ];
}

async function listSubscriptions(deps: NotificationDeps, call: Call): Promise<Reply> {
  const found = await subscriptionsOf(deps.mongo, callerOf(call.identity).id);
  return { status: 200, data: { items: found.map(subscriptionView) } };
}

async function addSubscription(
  deps: NotificationDeps,
  call: Call<PushSubscriptionRequest>,
): Promise<Reply | Rejection> {
  const details = subscriptionFaults(call.body, deps.pushHosts);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const subscription = subscriptionOf(call.body, new Date(deps.now()));
  const { id } = callerOf(call.identity);
  await storeSubscription(deps.mongo, id, subscription);
  // A session may outlive the erasure of its user for some minutes.
  await eraseStoredMeanwhile(deps.mongo, [id], { now: deps.now() });
  return { status: 201, data: { subscription: subscriptionView(subscription) } };
}

/** A repeat, which finds nothing, is no fault: the browser is removed. */
async function removeSubscription(deps: NotificationDeps, call: Call): Promise<Reply> {
  const { subscriptionId = '' } = call.params;
  const isDeleted = await deleteSubscription(deps.mongo, callerOf(call.identity).id, subscriptionId);
  return { status: 200, data: { deleted: isDeleted ? 1 : 0 } };
}
