import { randomBytes } from 'node:crypto';
import { operator } from '#api/http/guards/tokens.ts';
import { type Call, NO_FIELDS, type Reply, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { type SubscriberRules, subscriberUrlFault } from '#infra/channels/subscriber.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import {
  changeSubscription,
  deleteSubscription,
  findSubscription,
  insertSubscription,
  listSubscriptions,
  type Rotation,
} from '#infra/mongo/operations/subscriptions.ts';
import { logActs, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { SubscriptionChange, SubscriptionOrder } from '#shared/generated/operations.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { messageOrder, TEST_TYPE } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { Now } from '#shared/kernel/time.ts';
import { PREVIOUS_SECRET_MS, type Subscription, subscriptionView } from '#shared/operations/subscription.ts';

export interface SubscriptionDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  log: Pick<Log, 'info'>;
  opsToken: Secrets | undefined;
  rules: SubscriberRules;
}

const SUBSCRIPTIONS: Tag = {
  name: 'Subscriptions to events',
  description: 'Which systems receive events of attempts, releases and classification jobs, as signed webhooks.',
};
const PATH = '/v1/ops/subscriptions';
/** Attempts of a test message: an operator waits for it and sends another one. */
const TEST_ATTEMPTS = 1;
const KEY_BYTES = 32;

/** Returns the routes of operators for subscriptions to events. Every change is a row of the audit. */
export function subscriptionRoutes(deps: SubscriptionDeps): Route[] {
  const common = { tag: SUBSCRIPTIONS, guards: [operator(deps)] } as const;
  const params = { id: 'Id of the subscription' } as const;
  const missing = { params, errors: ['SUBSCRIPTION_NOT_FOUND'] } as const;
  const withSecret = { schema: 'operations/subscription-with-secret', description: 'The subscription' };
  return [
    {
      ...common,
      method: 'POST',
      path: PATH,
      operation: 'createSubscription',
      summary: 'Create a subscription to events; the reply shows its secret once',
      description:
        'Has events of the wanted types sent to an address from about five seconds later on. `secret` verifies their signature and is in no other reply. A repeat creates another subscription: delete the one whose reply was lost.',
      body: { schema: 'operations/subscription-order', maxBytes: SMALL_BODY },
      replies: [{ status: 201, ...withSecret }],
      errors: ['SUBSCRIPTION_LIMIT_REACHED'],
      handle: (call: Call<SubscriptionOrder>) => create(deps, call),
    },
    {
      ...common,
      method: 'GET',
      path: PATH,
      operation: 'listSubscriptions',
      summary: 'List the subscriptions to events',
      description: 'Lists all subscriptions, oldest first, without their secrets.',
      replies: [{ status: 200, schema: 'operations/subscription-list', description: 'All subscriptions' }],
      errors: [],
      async handle() {
        const rows = await listSubscriptions(deps.mongo);
        return { status: 200, data: { subscriptions: rows.map(subscriptionView) } };
      },
    },
    {
      ...common,
      ...missing,
      method: 'GET',
      path: `${PATH}/:id`,
      operation: 'getSubscription',
      summary: 'Get a subscription to events',
      description:
        'Returns one subscription, without its secret. `disabledReason` and `failingSince` state how its receiver fares.',
      replies: [{ status: 200, schema: 'operations/subscription', description: 'The subscription' }],
      async handle({ params }: Call) {
        const found = await findSubscription(deps.mongo, params.id ?? '');
        return found === null ? NOT_FOUND : { status: 200, data: subscriptionView(found) };
      },
    },
    {
      ...common,
      ...missing,
      method: 'PATCH',
      path: `${PATH}/:id`,
      operation: 'changeSubscription',
      summary: 'Change a subscription to events, or rotate its secret',
      description:
        'Changes the named fields, and only these. `rotateSecret` returns a new secret; the earlier one signs beside it for 24 hours. A repeat with `rotateSecret` rotates again.',
      body: { schema: 'operations/subscription-change', maxBytes: SMALL_BODY },
      replies: [{ status: 200, ...withSecret }],
      handle: (call: Call<SubscriptionChange>) => change(deps, call),
    },
    {
      ...common,
      ...missing,
      method: 'DELETE',
      path: `${PATH}/:id`,
      operation: 'deleteSubscription',
      summary: 'Delete a subscription to events; messages that wait for it are dropped',
      description:
        'Deletes a subscription. A message that is being sent may still arrive. A repeat gets SUBSCRIPTION_NOT_FOUND.',
      replies: [{ status: 200, schema: 'operations/subscription-deleted', description: 'Its id' }],
      async handle(call: Call) {
        const id = call.params.id ?? '';
        const isGone = await deleteSubscription(deps.mongo, id, actOf(deps, call));
        return isGone ? { status: 200, data: { id } } : NOT_FOUND;
      },
    },
    {
      ...common,
      method: 'POST',
      params,
      path: `${PATH}/:id/test`,
      operation: 'testSubscription',
      summary: 'Send a test message to an active subscription',
      description:
        'Sends one message of the type `subscription.test`, once. If the receiver does not accept it, a dead letter names the cause. A repeat sends another message.',
      body: NO_FIELDS,
      replies: [{ status: 201, schema: 'operations/subscription-test', description: 'The test event' }],
      errors: ['SUBSCRIPTION_NOT_FOUND', 'SUBSCRIPTION_DISABLED'],
      handle: (call: Call) => sendTest(deps, call),
    },
  ];
}

const NOT_FOUND = { rejected: 'SUBSCRIPTION_NOT_FOUND' } as const;

async function create(deps: SubscriptionDeps, call: Call<SubscriptionOrder>): Promise<Reply | Rejection> {
  const { url, types, organizationId, description } = call.body;
  const fault = faultOfUrl(deps, url);
  if (fault !== null) return fault;
  const act = actOf(deps, call);
  const at = new Date(act.now);
  const row: Subscription = {
    _id: newId(act.now),
    url,
    types: [...new Set(types)],
    organizationId: organizationId ?? null,
    description: description ?? null,
    state: 'ACTIVE',
    disabledReason: null,
    secret: newSecret(),
    previousSecret: null,
    previousUntil: null,
    failingSince: null,
    pausedUntil: null,
    createdAt: at,
    updatedAt: at,
  };
  if (!(await insertSubscription(deps.mongo, row, act))) return { rejected: 'SUBSCRIPTION_LIMIT_REACHED' };
  return { status: 201, data: { subscription: subscriptionView(row), secret: row.secret } };
}

async function change(deps: SubscriptionDeps, call: Call<SubscriptionChange>): Promise<Reply | Rejection> {
  const { url, types, organizationId, description, state, rotateSecret } = call.body;
  const fault = url === undefined ? null : faultOfUrl(deps, url);
  if (fault !== null) return fault;
  const id = call.params.id ?? '';
  const found = await findSubscription(deps.mongo, id);
  if (found === null) return NOT_FOUND;
  const act = actOf(deps, call);
  const changes: Partial<Subscription> = {
    updatedAt: new Date(act.now),
    ...(url === undefined ? {} : { url, pausedUntil: null }),
    ...(types === undefined ? {} : { types: [...new Set(types)] }),
    ...(organizationId === undefined ? {} : { organizationId }),
    ...(description === undefined ? {} : { description }),
    ...(state === undefined ? {} : { state, disabledReason: null, failingSince: null, pausedUntil: null }),
  };
  const rotation = rotateSecret === true ? rotationOf(found, act.now) : null;
  const changed = await changeSubscription(deps.mongo, id, changes, rotation, act);
  if (changed === null) return NOT_FOUND;
  const secret = rotation === null ? null : changed.secret;
  return { status: 200, data: { subscription: subscriptionView(changed), secret } };
}

function rotationOf({ secret: from }: Subscription, now: number): Rotation {
  const previousUntil = new Date(now + PREVIOUS_SECRET_MS);
  return { from, fields: { secret: newSecret(), previousSecret: from, previousUntil } };
}

async function sendTest({ mongo, now }: SubscriptionDeps, { params }: Call): Promise<Reply | Rejection> {
  const found = await findSubscription(mongo, params.id ?? '');
  if (found === null) return NOT_FOUND;
  if (found.state === 'DISABLED') return { rejected: 'SUBSCRIPTION_DISABLED' };
  const at = now();
  const eventId = newId(at);
  const subscriptionId = found._id;
  const message = { subscriptionId, eventId, type: TEST_TYPE, createdAt: new Date(at), data: { subscriptionId } };
  const order = messageOrder(message, subscriptionId);
  await postCommand(mongo, newCommand({ ...order, maxAttempts: TEST_ATTEMPTS, now: at }));
  return { status: 201, data: { eventId } };
}

/** Returns a new secret in the form of the Standard Webhooks convention. */
function newSecret(): string {
  return `whsec_${randomBytes(KEY_BYTES).toString('base64')}`;
}

function faultOfUrl({ rules }: SubscriptionDeps, url: string): Rejection | null {
  const message = subscriberUrlFault(url, rules);
  return message === null ? null : { rejected: 'VALIDATION_FAILED', details: [{ path: '/url', message }] };
}

function actOf(
  { now, log }: SubscriptionDeps,
  { identity, requestId }: Pick<Call, 'identity' | 'requestId'>,
): OperatorAct {
  const committed = logActs(log, { requestId });
  return { operator: identity.operator ?? 'unknown', reason: 'by /v1/ops/subscriptions', now: now(), committed };
}
