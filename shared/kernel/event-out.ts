import type { Order, Queue } from './command.ts';

/** Types of events to which other systems may subscribe. Names are for ever. */
export const EVENT_TYPES = ['attempt.submitted', 'attempt.graded', 'results.released', 'job.completed'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

interface AttemptFact {
  attemptId: string;
  /** Shard key of the attempt; absent after the erasure of the student. */
  studentId?: string;
  /** The round of the attempt that it is about; absent for the first one. */
  round?: number;
}

/** Ids and facts of an event, as the transaction of its change stores them: of the facts only those that later writes change. */
export type EventOut =
  | ({ type: 'attempt.submitted' } & AttemptFact)
  /** `isVisible`: the student saw the result when it was graded. Only then does the event contain a score. */
  | ({ type: 'attempt.graded'; gradedAt: Date; isVisible: boolean } & AttemptFact)
  /** `students`: how many the release names; null: it is for all. An event that was stored before releases named students lacks it. */
  | {
      type: 'results.released';
      examId: string;
      organizationId: string | null;
      students?: number | null;
      releasedAt: Date;
    }
  | { type: 'job.completed'; jobId: string; organizationId: string; status: string; succeeded: number; failed: number };

/** The message to one subscriber. The data lacks the student, who is read from the attempt when it is sent. */
export interface EventMessage {
  subscriptionId: string;
  /** Id of the event, the same for all subscribers. */
  eventId: string;
  type: EventType | typeof TEST_TYPE;
  createdAt: Date;
  data: Readonly<Record<string, unknown>>;
  /** Attempt whose student the message names; absent if it names none. */
  attemptId?: string;
  /** Shard key of the attempt; absent once the message has ended, and after the erasure of the student. */
  studentId?: string;
}

/** Type of the message that an operator sends to test a subscription. */
export const TEST_TYPE = 'subscription.test' as const;

/** Body, progress and result of the commands of events, by queue. */
export interface EventCommands {
  /** Writes the message of an event to each subscription that wants it. */
  'upkeep:publish': { body: EventOut; progress: null; result: { messages: number } };
  /** Sends one message. `dropped`: the subscription was deleted, the student erased, or the receiver answered 410. */
  'upkeep:webhooks': {
    body: EventMessage;
    progress: null;
    result: { status: number } | { dropped: 'DELETED' | 'ERASED' | 'GONE' };
  };
}

/** Returns the command that publishes an event: one per change. */
export function publishOrder(body: EventOut, source: string): Order<'upkeep:publish', EventOut> {
  return { queue: 'upkeep:publish', key: `publish:${body.type}:${source}`, subject: subjectOf(body), body };
}

/** Returns the command that sends a message: one per event and subscription. */
export function messageOrder(body: EventMessage, subject: string): Order<'upkeep:webhooks', EventMessage> {
  const { eventId, subscriptionId } = body;
  const queue = 'upkeep:webhooks' satisfies Queue;
  // The slots of the queue go round the subscriptions, as those of other queues go round the organizations.
  return { queue, key: `webhook:${eventId}:${subscriptionId}`, subject, organizationId: subscriptionId, body };
}

function subjectOf(event: EventOut): string {
  switch (event.type) {
    case 'results.released':
      return event.examId;
    case 'job.completed':
      return event.jobId;
    default:
      return event.attemptId;
  }
}
