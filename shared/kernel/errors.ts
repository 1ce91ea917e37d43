/**
 * Every error code of a reply, with its HTTP status and its default message. A `Rejection` may replace the message.
 * `docs/errors.md` and the OpenAPI document are generated from this catalogue, and a test keeps the three equal.
 * Never rename a published code: gateways branch on it.
 */
export const ERRORS = {
  ROUTE_NOT_FOUND: { status: 404, message: 'No such route' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'Method not allowed on this route' },
  UNAUTHENTICATED: { status: 401, message: 'Identity is missing or malformed' },
  FORBIDDEN: { status: 403, message: 'This role or actor may not do that' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'The body must be application/json' },
  UNSUPPORTED_ENCODING: { status: 415, message: 'The body must not be content-encoded' },
  PAYLOAD_TOO_LARGE: { status: 413, message: 'The body is too large' },
  INVALID_JSON: { status: 400, message: 'The body is not acceptable JSON' },
  VALIDATION_FAILED: { status: 400, message: 'The request is invalid; see `details`' },
  REQUEST_TIMEOUT: { status: 408, message: 'The request did not arrive in time' },
  RATE_LIMITED: { status: 429, message: 'Too many requests' },
  UNAVAILABLE: { status: 503, message: 'The service cannot answer now' },
  INTERNAL: { status: 500, message: 'Something went wrong on our side' },

  IDEMPOTENCY_KEY_REQUIRED: {
    status: 400,
    message: '`Idempotency-Key` header required: 1–255 printable ASCII characters',
  },
  ATTEMPT_START_UNTRUSTED: { status: 403, message: 'The start request does not come from a trusted gateway' },
  EXAM_ID_MISMATCH: { status: 400, message: 'The exam id of the path and of the body differ' },
  COURSE_CONTEXT_UNTRUSTED: { status: 403, message: 'The course context does not come from the course service' },
  COURSE_CONTEXT_INVALID: { status: 400, message: 'The course context is incomplete or does not match' },
  EXAM_NOT_PUBLISHED: { status: 409, message: 'The exam is not published' },
  EXAM_OFFLINE: { status: 409, message: 'The exam is held offline' },
  EXAM_NOT_OPEN: { status: 409, message: 'The exam has not opened yet' },
  EXAM_CLOSED: { status: 409, message: 'The exam has closed' },
  EXAM_PASSWORD_REQUIRED: { status: 403, message: 'The exam password has not been verified' },
  EXAM_ACCESS_DENIED: { status: 403, message: 'Neither an assignment nor an access link lets this student in' },
  ACCESS_LINK_EXPIRED: { status: 403, message: 'The access link has expired or is inactive' },
  ACCESS_LINK_FULL: { status: 409, message: 'The access link has no seat left' },
  ATTEMPT_LIMIT_REACHED: { status: 409, message: 'The maximum number of attempts has been reached' },
  ATTEMPT_ALREADY_OPEN: { status: 409, message: 'Another attempt of this exam is open' },
  ASSIGNMENT_OVERDUE: { status: 409, message: 'The assignment is overdue' },
  ATTEMPT_NOT_FOUND: { status: 404, message: 'No such attempt' },
  ATTEMPT_LOCKED: { status: 409, message: 'Attempt is locked' },
  ATTEMPT_DEADLINE_EXPIRED: { status: 409, message: 'Exam duration expired' },
  ATTEMPT_TOO_LARGE: { status: 413, message: 'Saving this answer would exceed the size limit of the attempt' },
  QUESTION_NOT_IN_ATTEMPT: { status: 400, message: 'Câu hỏi không thuộc lượt làm bài này.' },
  ANSWER_VERSION_CONFLICT: { status: 409, message: 'A newer answer is stored' },
  EVENT_LIMIT_REACHED: { status: 429, message: 'The event limit of this attempt has been reached' },
  ATTEMPT_INTERNAL_UNAUTHORIZED: { status: 401, message: 'Internal credentials are missing or wrong' },
  ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED: {
    status: 503,
    message: 'No internal service token is configured on this server',
  },
  ATTEMPT_NOT_SUBMITTED: { status: 409, message: 'The attempt has not been submitted' },
  QUESTION_NOT_MANUAL: { status: 409, message: 'The question is not scored by hand' },
  ANSWER_NOT_FOUND: { status: 409, message: 'The question has no stored answer' },
  SCORE_OUT_OF_RANGE: {
    status: 400,
    message: "`score` must be between 0 and the question's score, and at most `maxScore`",
  },

  AUTH_REGISTRATION_CLOSED: { status: 403, message: 'Registration is closed; an operator creates accounts' },
  AUTH_WEAK_PASSWORD: { status: 400, message: 'The password does not meet the policy; see `details`' },
  AUTH_EMAIL_TAKEN: { status: 409, message: 'An account with this e-mail exists' },
  AUTH_PHONE_TAKEN: { status: 409, message: 'An account with this phone number exists' },
  AUTH_INVALID_CREDENTIALS: { status: 401, message: 'E-mail or password is wrong' },
  AUTH_INVALID_TOKEN: { status: 401, message: 'The token is missing, invalid, expired or revoked' },
  AUTH_ACCOUNT_DISABLED: { status: 403, message: 'This account is disabled' },
  AUTH_THROTTLED: { status: 429, message: 'Too many failed attempts; retry after the `Retry-After` delay' },
  SESSION_NOT_FOUND: { status: 404, message: 'No such session' },

  NOTIFICATION_INTERNAL_UNAUTHORIZED: { status: 401, message: 'Internal credentials are missing or wrong' },
  NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED: {
    status: 503,
    message: 'No internal service token is configured on this server',
  },
  NOTIFICATION_SOURCE_MISMATCH: { status: 403, message: '`sourceService` must match the authenticated sender' },
  NOTIFICATION_NOT_FOUND: { status: 404, message: 'No such notification' },
  NOTIFICATION_OWNER_MISMATCH: { status: 409, message: 'This notification id belongs to another user' },

  JOB_NOT_FOUND: { status: 404, message: 'No such job' },
  JOB_STATE_CONFLICT: {
    status: 409,
    message: "The job's state does not allow this, or an identical job is already open",
  },
  AI_OWNER_UNAVAILABLE: {
    status: 503,
    message: 'A required service (question bank, usage or wallet) is unavailable or not configured',
  },
  AI_QUESTION_CONTEXT_FAILED: { status: 503, message: 'The question bank did not return the questions' },
  AI_WALLET_INSUFFICIENT: { status: 402, message: 'Insufficient wallet balance' },
  AI_USAGE_LIMIT_EXCEEDED: { status: 429, message: 'A usage limit is reached' },
  AI_SETTLEMENT_PENDING: {
    status: 503,
    message: 'The preview was generated but is not paid for yet; send the same request again',
  },
  AI_GENERATION_IN_PROGRESS: {
    status: 503,
    message: 'An identical request is in progress, or the organization has too many; retry later',
  },
  AI_PROVIDER_INVALID_RESPONSE: { status: 502, message: 'The model provider returned no usable answer' },
  AI_PROVIDER_UNAVAILABLE: { status: 503, message: 'The model provider cannot be used now' },
  AI_PROVIDER_CIRCUIT_OPEN: {
    status: 503,
    message: 'Calls to the model provider are suspended after repeated failures',
  },
  AI_PROVIDER_THROTTLED: { status: 429, message: 'The model provider is rate-limiting requests' },
  AI_PROVIDER_QUOTA: { status: 402, message: 'The quota at the model provider is used up' },
  AI_PROVIDER_TIMEOUT: { status: 504, message: 'The model provider did not answer in time' },
  AI_PROVIDER_NOT_CONFIGURED: { status: 503, message: 'No model provider is configured' },
  AI_API_KEY_REF_NOT_ALLOWED: { status: 400, message: '`apiKeyRef` is not an allowed key variable for this provider' },
  AI_PROVIDER_UNSUPPORTED: { status: 400, message: 'No such model provider' },
  AI_BASE_URL_NOT_ALLOWED: {
    status: 400,
    message: '`baseUrl` is neither official nor allowed by AI_CLASSIFIER_BASE_URL or AI_CLASSIFIER_ALLOWED_BASE_URLS',
  },
} as const satisfies Record<string, { status: number; message: string }>;

export type ErrorCode = keyof typeof ERRORS;

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

export function isRejection(value: unknown): value is Rejection {
  return typeof value === 'object' && value !== null && 'rejected' in value;
}
