import type { ErrorCatalogue } from './error-facts.ts';

/** Codes of the notification service. */
export const NOTIFICATION_ERRORS = {
  NOTIFICATION_INTERNAL_UNAUTHORIZED: {
    status: 401,
    message: 'Internal credentials are missing or wrong',
    cause: '`X-Internal-Service` is not a sender of this route, or `X-Internal-Token` is not the token of that sender.',
    remedy: "Check the sender's name and its own token at the notification service.",
    retry: 'no',
  },
  NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED: {
    status: 503,
    message: 'No internal service token is configured on this server',
    cause: 'The server has no token for any sender of this route.',
    remedy: 'Report it to the operator. Send the event again, with the same source pair, once a token is set.',
    retry: 'no',
  },
  NOTIFICATION_SOURCE_MISMATCH: {
    status: 403,
    message: '`sourceService` must match the authenticated sender',
    cause: "The event's `sourceService` names another service than the one that sent it.",
    remedy: "Send the event under the sender's own name.",
    retry: 'no',
  },
  NOTIFICATION_NOT_FOUND: {
    status: 404,
    message: 'No such notification',
    cause: 'No notification has this id, or it is deleted.',
    remedy: 'Remove it from the list. If this was a repeated delete, the first one has succeeded.',
    retry: 'no',
  },
  NOTIFICATION_OWNER_MISMATCH: {
    status: 409,
    message: 'This notification id belongs to another user',
    cause: 'The snapshot names another user than the stored notification of this id.',
    remedy: 'Correct the sender: an id belongs to one user for ever.',
    retry: 'no',
  },
} as const satisfies ErrorCatalogue;
