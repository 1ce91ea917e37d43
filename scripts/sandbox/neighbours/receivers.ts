import { Webhook } from 'standardwebhooks';
import { ATTEMPT_ENTITY, ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import {
  COUNT,
  closed,
  faultsOf,
  fields,
  INSTANT,
  INSTANT_OR_NULL,
  type Journal,
  type NeighbourCall,
  NUMBER_OR_NULL,
  ok,
  openJournal,
  type Reply,
  refusal,
  type Schema,
  type StandIn,
  TEXT,
  TEXT_OR_NULL,
  textIn,
} from './stand-in.ts';

/** A stand-in that stores what arrives by its stable id, and counts the repeats. */
type Receiver = StandIn & Pick<Journal, 'timesOf'>;

/** Opens a service that receives events of one sender and recognizes a repeat by its `sourceEventId`. */
function eventStandIn(sender: string, shape: Schema): Receiver {
  const events = openJournal<{ event: unknown }>('events');
  return {
    ...events,
    routes: [
      {
        method: 'POST',
        path: /^\/v1\/events$/,
        senders: [sender],
        shape,
        answer({ body }) {
          const sourceEventId = textIn(body, 'sourceEventId');
          const replayed = events.note(sourceEventId, { event: body }) > 1;
          return ok({ sourceEventId, replayed }, replayed ? 200 : 201);
        },
      },
    ],
  };
}

const QUESTION = closed({
  ...fields(TEXT, 'questionId', 'type', 'mode'),
  questionVersionId: TEXT_OR_NULL,
  score: NUMBER_OR_NULL,
  maxScore: { type: 'number' },
  isCorrect: { type: ['boolean', 'null'] },
});

const PAYLOAD = closed({
  exam: closed({
    ...fields(TEXT, 'id', 'status', 'showResultMode'),
    ...fields(TEXT_OR_NULL, 'title', 'subject'),
    ...fields(INSTANT_OR_NULL, 'closeTime', 'resultsReleasedAt'),
    gradeLevel: { type: ['string', 'number', 'null'] },
    durationMinutes: COUNT,
  }),
  result: closed({
    ...fields(NUMBER_OR_NULL, 'totalScore', 'scorePercent', 'correctCount', 'wrongCount', 'durationSeconds'),
    maxScore: { type: 'number' },
  }),
  answerCount: COUNT,
  questions: { type: 'array', items: QUESTION },
});

/** Body of an event for the analytics service; version 2 belongs to attempts of a course. */
const ANALYTICS = closed(
  {
    sourceService: { const: ATTEMPT_SERVICE },
    type: { enum: ['attempt.submitted.v1', 'attempt.graded.v1', 'attempt.graded.v2'] },
    entity: { const: ATTEMPT_ENTITY },
    ...fields(TEXT, 'sourceEventId', 'entityId', 'actorId', 'studentId'),
    organizationId: TEXT_OR_NULL,
    occurredAt: INSTANT,
    payload: PAYLOAD,
  },
  { schemaVersion: { const: 2 }, courseContext: { type: 'object' } },
);

export const analyticsStandIn = () => eventStandIn(ATTEMPT_SERVICE, ANALYTICS);

const AUDIT = closed({
  sourceService: { const: NOTIFICATION_SERVICE },
  sourceEventId: TEXT,
  category: { const: 'DOMAIN' },
  severity: { const: 'INFO' },
  metadataSchemaVersion: { const: 1 },
  retentionPolicy: { const: 'notification-events' },
  occurredAt: INSTANT,
  ...fields(TEXT_OR_NULL, 'type', 'organizationId', 'actorId', 'entity', 'entityId'),
  metadata: closed({ ...fields(TEXT_OR_NULL, 'producer', 'producerEventId', 'preferenceType'), created: COUNT }),
});

export const auditStandIn = () => eventStandIn(NOTIFICATION_SERVICE, AUDIT);

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
export function webhookStandIn(secret: string): Receiver {
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
