import type { ErrorCatalogue } from './error-facts.ts';

/** Codes of the auth service. */
export const AUTH_ERRORS = {
  AUTH_REGISTRATION_CLOSED: {
    status: 403,
    message: 'Registration is closed; an operator creates accounts',
    cause: '`AUTH_SELF_REGISTER_ROLES` is empty, so no person may register.',
    remedy: 'Show no registration. An operator imports the account.',
    retry: 'no',
  },
  AUTH_WEAK_PASSWORD: {
    status: 400,
    message: 'The password does not meet the policy; see `details`',
    cause:
      "The password has a forbidden length or characters, is common, a date, a repetition or a run, or is the owner's e-mail or name.",
    remedy: 'Show every reason in `details`, and let the user choose another password.',
    retry: 'no',
  },
  AUTH_EMAIL_TAKEN: {
    status: 409,
    message: 'An account with this e-mail exists',
    cause: 'An account has this e-mail. A suspended or deleted account keeps its e-mail.',
    remedy: 'Log in. If this was a repeat, the first registration has succeeded.',
    retry: 'no',
  },
  AUTH_PHONE_TAKEN: {
    status: 409,
    message: 'An account with this phone number exists',
    cause: 'An account has this phone number. A suspended or deleted account keeps its number.',
    remedy: 'Register with another number or without one.',
    retry: 'no',
  },
  AUTH_INVALID_CREDENTIALS: {
    status: 401,
    message: 'E-mail or password is wrong',
    cause: 'The password is wrong, or no account has the e-mail. The reply does not reveal which.',
    remedy: 'Let the user type both again. Each failure counts towards `AUTH_THROTTLED`.',
    retry: 'no',
  },
  AUTH_INVALID_TOKEN: {
    status: 401,
    message: 'The token is missing, invalid, expired or revoked',
    cause: 'The token is missing, malformed, expired or already used, or its session has ended.',
    remedy: 'Refresh an access token and repeat with the new one. If a refresh gets this code, log in.',
    retry: 'no',
  },
  AUTH_ACCOUNT_DISABLED: {
    status: 403,
    message: 'This account is disabled',
    cause: 'The account is `SUSPENDED`. Only a caller with its password or a valid token gets this code.',
    remedy: 'Show that the account is suspended. Its sessions work again once an operator sets it to `ACTIVE`.',
    retry: 'no',
  },
  AUTH_THROTTLED: {
    status: 429,
    message: 'Too many attempts; retry after the `Retry-After` delay',
    cause:
      'Too many login attempts with this e-mail had a wrong password. Or too many accounts failed or registered from this address.',
    remedy:
      'Show the delay, and let the person type the password again. A wrong one may have been counted, so do not repeat it.',
    retry: 'after',
  },
  SESSION_NOT_FOUND: {
    status: 404,
    message: 'No such session',
    cause: 'The session is unknown, has ended, or belongs to another account.',
    remedy: 'List the sessions again. If this was a repeat, the first request has ended the session.',
    retry: 'no',
  },
} as const satisfies ErrorCatalogue;
