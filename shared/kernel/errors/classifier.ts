import type { ErrorCatalogue } from './error-facts.ts';

/** Codes of the AI classifier. */
export const CLASSIFIER_ERRORS = {
  JOB_NOT_FOUND: {
    status: 404,
    message: 'No such job',
    cause: 'No job of this actor and organization has the id. The jobs of others are hidden, also from an ADMIN.',
    remedy: 'Check the id, `X-Actor-Id` and `X-Organization-Id`.',
    retry: 'no',
  },
  JOB_STATE_CONFLICT: {
    status: 409,
    message: "The job's state does not allow this, or an identical job is already open",
    cause:
      'Only an unfinished job can be cancelled. Only a FAILED or CANCELLED job can be retried, and only while no equal job is open.',
    remedy: 'Read the job and act on its `status`. If this was a repeat, the first request may have succeeded.',
    retry: 'no',
  },
  AI_OWNER_UNAVAILABLE: {
    status: 503,
    message: 'A required service (question bank, usage or wallet) is unavailable or not configured',
    cause: 'The question bank, the usage service or the wallet service failed or has no URL. No model was called.',
    remedy: 'Repeat the request. If the code persists, report it to the operator.',
    retry: 'after-if-sent',
  },
  AI_QUESTION_CONTEXT_FAILED: {
    status: 503,
    message: 'The question bank did not return the questions',
    cause:
      'The question bank failed or lacks the question. Only the `error` of a job or question has this code, no reply.',
    remedy: 'Retry a FAILED job. For single questions of a COMPLETED job, create a new job with these questions.',
    retry: 'yes',
  },
  AI_WALLET_INSUFFICIENT: {
    status: 402,
    message: 'Insufficient wallet balance',
    cause: 'The balance does not cover this generation together with those that the organization has in flight.',
    remedy: 'Request fewer questions, or repeat once the wallet has been filled.',
    retry: 'no',
  },
  AI_USAGE_LIMIT_EXCEEDED: {
    status: 429,
    message: 'A usage limit is reached',
    cause: 'A usage limit does not cover this generation together with those in flight. The message names the limits.',
    remedy: 'Request fewer questions, or repeat once the limit has been renewed or raised.',
    retry: 'no',
  },
  AI_SETTLEMENT_PENDING: {
    status: 503,
    message: 'The preview was generated but is not paid for yet; send the same request again',
    cause: 'The preview is stored, but usage and wallet service have not both charged it. `data.previewId` names it.',
    remedy:
      'Send the same request until it returns the preview. Within a day, no repeat is generated or charged again.',
    retry: 'after',
  },
  AI_GENERATION_IN_PROGRESS: {
    status: 503,
    message: 'An identical request is in progress, or the organization has too many; retry later',
    cause: 'Another request has been generating the same preview for 25 s, or the organization has 1,000 in flight.',
    remedy: 'Send the same request: it returns the preview of the other one as soon as that is there.',
    retry: 'after',
  },
  AI_PROVIDER_INVALID_RESPONSE: {
    status: 502,
    message: 'The model provider returned no usable answer',
    cause: "The model's answer was cut, filtered, refused or unusable, or the provider refused the request as invalid.",
    remedy: 'Repeat once or twice: each repeat calls the model again. Then change the request.',
    retry: 'yes',
  },
  AI_PROVIDER_UNAVAILABLE: {
    status: 503,
    message: 'The model provider cannot be used now',
    cause: 'The provider is unreachable, has a fault of its own (5xx), or refuses the key (401, 403).',
    remedy: 'Repeat the request. If the code persists, the operator checks the key and the provider.',
    retry: 'after-if-sent',
  },
  AI_PROVIDER_CIRCUIT_OPEN: {
    status: 503,
    message: 'Calls to the model provider are suspended after repeated failures',
    cause: 'After `AI_CLASSIFIER_CIRCUIT_FAILURES` failures in a row, no call is made for a while.',
    remedy: 'Repeat the request after the delay. One call then probes the provider.',
    retry: 'after',
  },
  AI_PROVIDER_THROTTLED: {
    status: 429,
    message: 'The model provider is rate-limiting requests',
    cause: 'The provider answered 429, or requested a pause that is longer than this request can wait.',
    remedy: 'Send fewer requests at once, and repeat this one later.',
    retry: 'after-if-sent',
  },
  AI_PROVIDER_QUOTA: {
    status: 402,
    message: 'The quota at the model provider is used up',
    cause: "The provider's budget or quota for this key is used up.",
    remedy: 'Report it to the operator, who raises the quota or selects another provider.',
    retry: 'no',
  },
  AI_PROVIDER_TIMEOUT: {
    status: 504,
    message: 'The model provider did not answer in time',
    cause: 'The provider did not answer within `AI_PROVIDER_TIMEOUT_MS`, or the time for all provider calls is over.',
    remedy: 'Repeat the request, if possible with less text or fewer questions.',
    retry: 'after-if-sent',
  },
  AI_PROVIDER_NOT_CONFIGURED: {
    status: 503,
    message: 'No model provider is configured',
    cause: 'The selected provider is unknown, or lacks its key, model or address.',
    remedy: 'Report it to the operator. `GET /v1/ai/providers/status` is `degraded` until it is corrected.',
    retry: 'no',
  },
  AI_API_KEY_REF_NOT_ALLOWED: {
    status: 400,
    message: '`apiKeyRef` is not an allowed key variable for this provider',
    cause: "`apiKeyRef` names neither `AI_CLASSIFIER_API_KEY` nor the provider's own variable.",
    remedy: 'Name one of these two variables, or leave `apiKeyRef` out.',
    retry: 'no',
  },
  AI_PROVIDER_UNSUPPORTED: {
    status: 400,
    message: 'No such model provider',
    cause: '`provider` of the setting is not a provider that this service can call.',
    remedy: 'Use `mock`, `local`, `openai`, `anthropic`, `gemini` or `deepseek`.',
    retry: 'no',
  },
  AI_BASE_URL_NOT_ALLOWED: {
    status: 400,
    message: '`baseUrl` is neither official nor allowed by AI_CLASSIFIER_BASE_URL or AI_CLASSIFIER_ALLOWED_BASE_URLS',
    cause:
      'A key may not be sent to `baseUrl`: its origin is not listed, its address is forbidden, or it is not https.',
    remedy: 'Use the official address, or let the operator list the origin.',
    retry: 'no',
  },
} as const satisfies ErrorCatalogue;
