import { Webhook } from 'standardwebhooks';
import {
  closed,
  faultsOf,
  fields,
  INSTANT,
  INSTANT_OR_NULL,
  type Journal,
  type NeighbourCall,
  ok,
  openJournal,
  type Reply,
  refusal,
  type StandIn,
  TEXT,
  TEXT_OR_NULL,
} from './stand-in.ts';

const DELIVERY = closed({
  deliveryJobId: TEXT,
  channel: { const: 'webhook' },
  notification: closed({
    ...fields(TEXT, 'id', 'userId', 'type', 'title'),
    ...fields(TEXT_OR_NULL, 'organizationId', 'preferenceType', 'actorId', 'entity', 'entityId', 'sourceEventRef'),
    content: { type: 'string' },
    data: { type: ['object', 'null'] },
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
export function webhookStandIn(secret: string): StandIn & Pick<Journal<object>, 'timesOf'> {
  const webhook = new Webhook(secret);
  const deliveries = openJournal<Delivery['notification']>('deliveries');

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
    return ok({ deliveryJobId, replayed: deliveries.note(deliveryJobId, { userId, type, title }) > 1 });
  }

  return {
    ...deliveries,
    // The body is checked after the signature, as a receiver of webhooks must.
    routes: [{ method: 'POST', path: /^\/$/, senders: null, answer: take }],
  };
}
