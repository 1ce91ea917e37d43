import { ATTEMPT_ENTITY, ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import {
  COUNT,
  closed,
  INSTANT,
  INSTANT_OR_NULL,
  type NeighbourCall,
  NUMBER_OR_NULL,
  type Reply,
  remember,
  type Schema,
  type StandIn,
  TEXT,
  TEXT_OR_NULL,
  textIn,
} from './stand-in.ts';

/** A stand-in that stores events by their stable id. */
export interface EventStandIn extends StandIn {
  /** Returns how often an event arrived. */
  timesOf(sourceEventId: string): number;
}

/** Opens a service that receives events of one sender and recognizes a repeat by its `sourceEventId`. */
export function eventStandIn(sender: string, shape: Schema): EventStandIn {
  const events = new Map<string, { times: number; event: unknown }>();

  function take(call: NeighbourCall): Reply {
    const id = textIn(call.body, 'sourceEventId');
    const known = events.get(id);
    const times = (known?.times ?? 0) + 1;
    remember(events, id, { times, event: known?.event ?? call.body });
    const replayed = known !== undefined;
    return { status: replayed ? 200 : 201, body: { success: true, data: { sourceEventId: id, replayed } } };
  }

  return {
    timesOf: (id) => events.get(id)?.times ?? 0,
    routes: [{ method: 'POST', path: /^\/v1\/events$/, senders: [sender], shape, answer: take }],
    state: () => ({ events: events.size, byId: Object.fromEntries(events) }),
    forget: () => events.clear(),
  };
}

const QUESTION = closed({
  questionId: TEXT,
  questionVersionId: TEXT_OR_NULL,
  type: TEXT,
  mode: TEXT,
  score: NUMBER_OR_NULL,
  maxScore: { type: 'number' },
  isCorrect: { type: ['boolean', 'null'] },
});

const PAYLOAD = closed({
  exam: closed({
    id: TEXT,
    title: TEXT_OR_NULL,
    subject: TEXT_OR_NULL,
    gradeLevel: { type: ['string', 'number', 'null'] },
    status: TEXT,
    durationMinutes: COUNT,
    showResultMode: TEXT,
    closeTime: INSTANT_OR_NULL,
    resultsReleasedAt: INSTANT_OR_NULL,
  }),
  result: closed({
    totalScore: NUMBER_OR_NULL,
    maxScore: { type: 'number' },
    scorePercent: NUMBER_OR_NULL,
    correctCount: NUMBER_OR_NULL,
    wrongCount: NUMBER_OR_NULL,
    durationSeconds: NUMBER_OR_NULL,
  }),
  answerCount: COUNT,
  questions: { type: 'array', items: QUESTION },
});

/** Body of an event for the analytics service; version 2 belongs to attempts of a course. */
const ANALYTICS = closed(
  {
    sourceService: { const: ATTEMPT_SERVICE },
    sourceEventId: TEXT,
    type: { enum: ['attempt.submitted.v1', 'attempt.graded.v1', 'attempt.graded.v2'] },
    entity: { const: ATTEMPT_ENTITY },
    entityId: TEXT,
    organizationId: TEXT_OR_NULL,
    actorId: TEXT,
    studentId: TEXT,
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
  type: TEXT_OR_NULL,
  category: { const: 'DOMAIN' },
  severity: { const: 'INFO' },
  metadataSchemaVersion: { const: 1 },
  retentionPolicy: { const: 'notification-events' },
  occurredAt: INSTANT,
  organizationId: TEXT_OR_NULL,
  actorId: TEXT_OR_NULL,
  entity: TEXT_OR_NULL,
  entityId: TEXT_OR_NULL,
  metadata: closed({
    producer: TEXT_OR_NULL,
    producerEventId: TEXT_OR_NULL,
    preferenceType: TEXT_OR_NULL,
    created: COUNT,
  }),
});

/** Opens an audit service. */
export function auditStandIn(): EventStandIn {
  return eventStandIn(NOTIFICATION_SERVICE, AUDIT);
}
