import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { analyticsOrder, gradedOrder } from '#shared/attempt/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { EVENT_TYPES, type EventMessage, messageOrder } from '#shared/kernel/event-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { auditOrder } from '#shared/notification/commands.ts';
import type { Subscription } from '#shared/operations/subscription.ts';
import { graded, type PostOptions, postOrder, storeAttempt } from './stored-attempts.ts';
import { sampleFanOut } from './stored-notifications.ts';

// Commands that send events out, each with what it is about. They are due one second ago by default.

const GRADED_AT = new Date('2026-05-04T03:31:00.000Z');

/** Stores a graded attempt, and posts the command that reports its grading to the analytics service. */
export async function postAnalytics(mongo: Mongo, options?: PostOptions): Promise<Command> {
  return postOrder(mongo, analyticsOrder(await storeAttempt(mongo, graded()), GRADED_AT), options);
}

/** Ids of the events that the report of `postAnalytics` sends. */
export function analyticsIds({ subject }: Pick<Command, 'subject'>): string[] {
  return [`${subject}:submitted`, `${subject}:graded`];
}

/** Stores an event as a front door does whose audit service is configured. Returns the command that reports it there. */
export async function postAudit(mongo: Mongo): Promise<Command> {
  const fanOut = sampleFanOut({ rows: 1 });
  const audit = newCommand({ ...auditOrder(fanOut.fanOutId), maxAttempts: 10, now: Date.now() - SECOND });
  await insertFanOut(mongo, { ...fanOut, audit });
  return audit;
}

export async function postPublish(mongo: Mongo): Promise<Command> {
  const attempt = await storeAttempt(mongo, graded());
  return postOrder(mongo, gradedOrder(attempt, { at: GRADED_AT, isVisible: true }));
}

/** Posts the message of an attempt to a subscription. Returns the command; the id of its event is `body.eventId`. */
export async function postMessage(
  mongo: Mongo,
  subscriptionId: string,
  options?: PostOptions,
): Promise<Command<EventMessage>> {
  const { _id: attemptId, studentId, examId } = await storeAttempt(mongo, graded());
  const [eventId, createdAt] = [newId(), new Date()];
  const message = { subscriptionId, eventId, type: 'attempt.submitted', createdAt, attemptId, studentId } as const;
  return postOrder(mongo, messageOrder({ ...message, data: { attemptId, examId } }, attemptId), options);
}

export const SUBSCRIBER_SECRET = `whsec_${Buffer.from('subscriber-secret-of-32-bytes!!!').toString('base64')}`;

/** Stores an active subscription to all types of events of all organizations. */
export async function storeSubscription(
  mongo: Mongo,
  url: string,
  overrides: Partial<Subscription> = {},
): Promise<Subscription> {
  const at = new Date();
  const row: Subscription = {
    _id: newId(),
    url,
    types: [...EVENT_TYPES],
    organizationId: null,
    description: null,
    state: 'ACTIVE',
    disabledReason: null,
    secret: SUBSCRIBER_SECRET,
    previousSecret: null,
    previousUntil: null,
    failingSince: null,
    pausedUntil: null,
    createdAt: at,
    updatedAt: at,
    ...overrides,
  };
  await subscriptions(mongo).insertOne(row);
  return row;
}
