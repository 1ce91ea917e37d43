import { ATTEMPT_ERRORS } from '#shared/kernel/errors/attempt.ts';
import { AUTH_ERRORS } from '#shared/kernel/errors/auth.ts';
import { CLASSIFIER_ERRORS } from '#shared/kernel/errors/classifier.ts';
import type { ErrorFacts } from '#shared/kernel/errors/error-facts.ts';
import { REQUEST_ERRORS } from '#shared/kernel/errors/every-request.ts';
import { NOTIFICATION_ERRORS } from '#shared/kernel/errors/notification.ts';
import { OPERATIONS_ERRORS } from '#shared/kernel/errors/operations.ts';

/**
 * Every error code of a reply, by the service that returns it, in the order of `docs/errors.md`. The page and the OpenAPI document
 * are generated from these catalogues. Never rename a published code: gateways branch on it.
 */
export const ERROR_GROUPS = [
  { title: 'Every request', errors: REQUEST_ERRORS },
  { title: 'Attempt', errors: ATTEMPT_ERRORS },
  { title: 'Auth', errors: AUTH_ERRORS },
  { title: 'Notification', errors: NOTIFICATION_ERRORS },
  { title: 'AI classifier', errors: CLASSIFIER_ERRORS },
  { title: 'Operations', errors: OPERATIONS_ERRORS },
] as const;

type CodesOf<Group> = Group extends { errors: infer Errors } ? keyof Errors : never;
export type ErrorCode = CodesOf<(typeof ERROR_GROUPS)[number]>;

/** The facts about each code. */
export const ERRORS = Object.fromEntries(ERROR_GROUPS.flatMap(({ errors }) => Object.entries(errors))) as Readonly<
  Record<ErrorCode, ErrorFacts>
>;

/** One fault of a body or query: its place as a JSON pointer (`/answer/textAnswer`), and what is wrong there. */
export interface FaultDetail {
  path: string;
  message: string;
}

/** Returns the faults whose path `known` does not contain: a place whose shape is wrong needs no second fault. */
export function unknownTo(known: readonly FaultDetail[], faults: readonly FaultDetail[]): FaultDetail[] {
  const reported = new Set(known.map(({ path }) => path));
  return faults.filter(({ path }) => !reported.has(path));
}

/**
 * The refusal of a rule. Rules return it and never throw it; only bugs and failed I/O throw.
 * `message` replaces the default message of the code. `retryAfter` is in whole seconds and becomes the `Retry-After` header.
 */
export interface Rejection {
  rejected: ErrorCode;
  message?: string;
  data?: unknown;
  details?: FaultDetail[];
  retryAfter?: number;
}

/** Returns whether a value is a rejection, not a result. */
export function isRejection(value: unknown): value is Rejection {
  return typeof value === 'object' && value !== null && 'rejected' in value;
}
