import type { ErrorCatalogue } from './error-facts.ts';

/** Codes that requests of every service may get. */
export const REQUEST_ERRORS = {
  ROUTE_NOT_FOUND: {
    status: 404,
    message: 'No such route',
    cause: 'No route of this process has the path. Case, slashes and dots count, and a path parameter must be an id.',
    remedy: 'Correct the path. `GET /v1` lists the routes of the process.',
    retry: 'no',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    message: 'Method not allowed on this route',
    cause: 'The path exists with other methods only.',
    remedy: 'Use a method that the `Allow` header lists.',
    retry: 'no',
  },
  MISDIRECTED_REQUEST: {
    status: 421,
    message: 'This process serves requests to 127.0.0.1, localhost and [::1] only',
    cause:
      'Outside production, `Host` names neither an address of loopback nor a name without a dot. A foreign page could otherwise act as an ADMIN on the machine of a developer.',
    remedy:
      'Send the request to 127.0.0.1 or localhost. Behind a proxy that keeps another `Host`, set `EXAMHALL_OPEN=1`.',
    retry: 'no',
  },
  UNAUTHENTICATED: {
    status: 401,
    message: 'Identity is missing or malformed',
    cause:
      'An identity header is missing, malformed or sent twice; or the token of the gateway or of `/metrics` is missing or wrong.',
    remedy: "Send the identity headers of the route, each once, and the gateway's token if one is configured.",
    retry: 'no',
  },
  FORBIDDEN: {
    status: 403,
    message: 'This role or actor may not do that',
    cause: "The role may not use this route, or the object belongs to another user or to another teacher's exam.",
    remedy: 'Show that access is denied. Only a caller who has the right can succeed.',
    retry: 'no',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    message: 'The body must be application/json',
    cause:
      '`Content-Type` is missing, sent twice, not `application/json`, or names a charset other than UTF-8. The types of a form are refused without a body too.',
    remedy: 'Send `Content-Type: application/json`, once.',
    retry: 'no',
  },
  UNSUPPORTED_ENCODING: {
    status: 415,
    message: 'The body must not be content-encoded',
    cause: 'The body has a `Content-Encoding`, such as gzip.',
    remedy: 'Send the body without content encoding.',
    retry: 'no',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message: 'The body is too large',
    cause: 'The body exceeds the limit of its route, or a start takes more than 12 MiB in its stored form.',
    remedy: 'Send less. `GET /openapi.json` contains the limit of each route.',
    retry: 'no',
  },
  INVALID_JSON: {
    status: 400,
    message: 'The body is not acceptable JSON',
    cause:
      'The body is not JSON in UTF-8, or is nested deeper than 64 levels. Or an object of it has more than 133,000 members, a member twice, or a forbidden key: `__proto__`, or `constructor` with `prototype`.',
    remedy: 'Correct the code that writes the body.',
    retry: 'no',
  },
  VALIDATION_FAILED: {
    status: 400,
    message: 'The request is invalid; see `details`',
    cause:
      'Body or query do not fit the schema or a rule. Malformed HTTP, and a `Host` header that is missing, sent twice or invalid, get this code too, without `details`.',
    remedy: 'Correct every place that `details` lists.',
    retry: 'no',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    message: 'The request did not arrive in time',
    cause:
      'Head or body did not arrive within `REQUEST_HEAD_TIMEOUT_MS` or `REQUEST_BODY_TIMEOUT_MS`. While many bodies are arriving: the body came at less than 1 KiB a second.',
    remedy: 'Open a new connection, because the server closes this one, and repeat the request.',
    retry: 'yes',
  },
  RATE_LIMITED: {
    status: 429,
    message: 'Too many requests',
    cause:
      'A limit of the caller is reached: live streams of this process, weak-topic alerts within an hour, open jobs, or previews in flight. The limit of open jobs may be that of the organization. Or the network of the caller has sent 100 wrong tokens of operators within five minutes.',
    remedy:
      'Wait for `Retry-After`. Close a stream, or share one between the tabs of a browser: an EventSource does not reconnect by itself. A right token is accepted at once.',
    retry: 'after',
  },
  PERSON_ERASED: {
    status: 410,
    message: 'The data of this person has been erased',
    cause: 'An operator has erased the person, and the request would store new data under the same id.',
    remedy: 'Stop sending requests for this id. A person who comes back needs a new id.',
    retry: 'no',
  },
  UNAVAILABLE: {
    status: 503,
    message: 'The service cannot answer now',
    cause:
      'MongoDB is unavailable or slow, the process is starting or stopping, or a limit of the process is reached: bodies, requests of one address, hashes, streams.',
    remedy:
      'Repeat the request with the same key or id. The first one may have taken effect; [gateway.md](gateway.md#what-is-safe-to-send-again) lists the replies to a repeat.',
    retry: 'after',
  },
  INTERNAL: {
    status: 500,
    message: 'Something went wrong on our side',
    cause: 'The service has a fault. Its log has the error under the `requestId` of the reply.',
    remedy: 'Repeat the request once, with the same key or id. If the code comes again, report the `requestId`.',
    retry: 'yes',
  },
} as const satisfies ErrorCatalogue;
