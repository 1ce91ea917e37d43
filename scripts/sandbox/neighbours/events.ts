import { ATTEMPT_ENTITY, ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import {
  COUNT,
  closed,
  fields,
  INSTANT,
  INSTANT_OR_NULL,
  type Journal,
  NUMBER_OR_NULL,
  openJournal,
  type Schema,
  type StandIn,
  TEXT,
  TEXT_OR_NULL,
  textIn,
} from './stand-in.ts';

/** A stand-in that stores events by their stable id. */
export type EventStandIn = StandIn & Pick<Journal<object>, 'timesOf'>;

/** Opens a service that receives events of one sender and recognizes a repeat by its `sourceEventId`. */
function eventStandIn(sender: string, shape: Schema): EventStandIn {
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
          return { status: replayed ? 200 : 201, body: { success: true, data: { sourceEventId, replayed } } };
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
    schemaVersion: { const: 2 },
    courseContext: { type: 'object' },
  },
  ['schemaVersion', 'courseContext'],
);

/** Opens an analytics service. */
export function analyticsStandIn(): EventStandIn {
  return eventStandIn(ATTEMPT_SERVICE, ANALYTICS);
}

/** Body of an event for the audit service. */
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

/** Opens an audit service. */
export function auditStandIn(): EventStandIn {
  return eventStandIn(NOTIFICATION_SERVICE, AUDIT);
}
