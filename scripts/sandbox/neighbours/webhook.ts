import { Webhook } from 'standardwebhooks';
import {
  closed,
  faultsOf,
  INSTANT,
  INSTANT_OR_NULL,
  type NeighbourCall,
  ok,
  type Reply,
  refusal,
  remember,
  type StandIn,
  TEXT,
  TEXT_OR_NULL,
} from './stand-in.ts';

export interface WebhookStandIn extends StandIn {
  /** Returns how often a delivery arrived. */
  timesOf(deliveryJobId: string): number;
}

const DELIVERY = closed({
  deliveryJobId: TEXT,
  channel: { const: 'webhook' },
  notification: closed({
    id: TEXT,
    userId: TEXT,
    organizationId: TEXT_OR_NULL,
    type: TEXT,
    title: TEXT,
    content: { type: 'string' },
    preferenceType: TEXT_OR_NULL,
    actorId: TEXT_OR_NULL,
    entity: TEXT_OR_NULL,
    entityId: TEXT_OR_NULL,
    data: { type: ['object', 'null'] },
    sourceEventRef: TEXT_OR_NULL,
    isRead: { type: 'boolean' },
    readAt: INSTANT_OR_NULL,
    createdAt: INSTANT,
  }),
});

interface Delivery {
  deliveryJobId: string;
  notification: { userId: string; type: string; title: string };
}

/** Opens a receiver of the webhook channel, which verifies signatures by the public library and recognizes a repeat by its id. */
export function webhookStandIn(secret: string): WebhookStandIn {
  const webhook = new Webhook(secret);
  const deliveries = new Map<string, Delivery['notification'] & { times: number }>();

  function take(call: NeighbourCall): Reply {
    const headers = Object.fromEntries(Object.entries(call.headers).map(([name, value]) => [name, String(value)]));
    try {
      webhook.verify(call.text, headers);
    } catch {
      return refusal(401, 'WEBHOOK_SIGNATURE_INVALID', 'the signature, its time or its id is missing or wrong');
    }
    const details = faultsOf(DELIVERY, call.body);
    if (details.length > 0) return refusal(400, 'VALIDATION_FAILED', 'the body has faults', details);
    const { deliveryJobId, notification } = call.body as Delivery;
    if (headers['webhook-id'] !== deliveryJobId)
      return refusal(400, 'VALIDATION_FAILED', 'the header `webhook-id` names another delivery');
    const { userId, type, title } = notification;
    const times = (deliveries.get(deliveryJobId)?.times ?? 0) + 1;
    remember(deliveries, deliveryJobId, { userId, type, title, times });
    return ok({ deliveryJobId, replayed: times > 1 });
  }

  return {
    timesOf: (id) => deliveries.get(id)?.times ?? 0,
    // The body is checked after the signature, as a receiver of webhooks must.
    routes: [{ method: 'POST', path: /^\/$/, senders: null, answer: take }],
    state: () => ({ deliveries: deliveries.size, byId: Object.fromEntries(deliveries) }),
    forget: () => deliveries.clear(),
  };
}
