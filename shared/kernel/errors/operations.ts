import type { ErrorCatalogue } from './error-facts.ts';

/** Codes of the routes for operators. */
export const OPERATIONS_ERRORS = {
  TRACE_NOT_FOUND: {
    status: 404,
    message: 'Nothing is stored under this id',
    cause: 'No attempt, command, notice, event, notification, job, generation, account or session has the id.',
    remedy: 'Check the id. Retention or an erasure may have deleted the object.',
    retry: 'no',
  },
  EXAM_NOT_FOUND: {
    status: 404,
    message: 'Nothing of this exam is stored',
    cause:
      'No attempt and no release of the exam is stored, or the teacher who calls examines none of its attempts. Exams themselves belong to another service.',
    remedy: 'Check the id. An exam is known from its first start on.',
    retry: 'no',
  },
  DEAD_LETTER_NOT_FOUND: {
    status: 404,
    message: 'No command has this id',
    cause: 'No command, notice or delivery has the id.',
    remedy: 'Take the id from a list of dead letters. An erasure may have deleted the command.',
    retry: 'no',
  },
  BULK_ACT_NOT_FOUND: {
    status: 404,
    message: 'No bulk act has this id',
    cause: 'No bulk act on dead letters has the id.',
    remedy: 'Take the id from the list of bulk acts.',
    retry: 'no',
  },
  BULK_ACT_ENDED: {
    status: 409,
    message: 'The bulk act has ended',
    cause: 'The bulk act is DONE, STOPPED or DEAD, so there is nothing to stop.',
    remedy: 'Read the bulk act. What it has done stays done.',
    retry: 'no',
  },
  BULK_ACT_KEY_REUSED: {
    status: 409,
    message: 'The key belongs to another bulk act',
    cause: 'A bulk act with this `key` has another act, filter, pace, consent or reason.',
    remedy: 'Send a new key for a new bulk act, or the first request again.',
    retry: 'no',
  },
  SUBSCRIPTION_NOT_FOUND: {
    status: 404,
    message: 'No subscription has this id',
    cause: 'No subscription to events has the id, or it was deleted.',
    remedy: 'Take the id from the list of subscriptions.',
    retry: 'no',
  },
  SUBSCRIPTION_DISABLED: {
    status: 409,
    message: 'The subscription is disabled',
    cause: 'A test message goes to an active subscription only.',
    remedy: 'Set `state` to `ACTIVE`, then send the test again.',
    retry: 'no',
  },
  SUBSCRIPTION_LIMIT_REACHED: {
    status: 409,
    message: 'No more subscriptions can be created',
    cause: 'There are 50 subscriptions, disabled ones included.',
    remedy: 'Delete one that is no longer needed.',
    retry: 'no',
  },
} as const satisfies ErrorCatalogue;
