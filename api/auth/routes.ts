import { accessToken, tokenInHeader } from '#api/http/guards/tokens.ts';
import { type Guard, NO_FIELDS, type Route, SMALL_BODY, type Tag } from '#api/route.ts';
import { registrationFaults } from '#shared/auth/registration.ts';
import { changePassword, readMe, register } from './account.ts';
import type { AuthDeps } from './deps.ts';
import { login } from './login.ts';
import { endAllOtherSessions, endOneSession, listSessions, logout, refresh } from './sessions.ts';

const ACCOUNTS: Tag = { name: 'Auth: accounts', description: 'Registration, the own account and its password.' };
const SESSIONS: Tag = { name: 'Auth: sessions', description: 'Login, tokens and the live sessions of an account.' };

const DEVICE_TOKEN = {
  'X-Device-Token':
    'Token for `X-Device-Token` of later logins from this browser, for 400 days. It opens nothing. A changed or set password, `unlock` and erasure end it',
};

/** Returns the auth service's routes: accounts, sessions and tokens. */
export function authRoutes(deps: AuthDeps): Route[] {
  const signedIn = [accessToken((token) => deps.signer.readAccess(token))];
  const userAgent = {
    name: 'user-agent',
    required: false,
    description: 'Stored with the session and shown in the list of sessions',
  };
  const deviceToken = {
    name: 'x-device-token',
    required: false,
    description:
      "Device token of an earlier sign-in in this browser. If it is one of the account, only this browser's own failures slow the request. Any other value is ignored",
  };
  return [
    {
      method: 'POST',
      path: '/v1/auth/register',
      operation: 'register',
      summary: 'Register an account and sign in',
      description:
        'Creates an account with a role that may register itself, and opens its first session. A repeat after a lost reply is 409 `AUTH_EMAIL_TAKEN`: log in instead. AUTH_SELF_REGISTER_ROLES names the roles; if it is empty, registration is closed.',
      tag: ACCOUNTS,
      guards: [registrationOpen(deps)],
      headers: [userAgent],
      body: {
        schema: 'auth/register-request',
        maxBytes: SMALL_BODY,
        moreFaults: (body, known) => registrationFaults(body, known, deps.settings.selfRegisterRoles),
      },
      replies: [
        {
          status: 201,
          schema: 'auth/session-envelope',
          description: 'New account and its tokens',
          headers: DEVICE_TOKEN,
        },
      ],
      errors: ['AUTH_WEAK_PASSWORD', 'AUTH_EMAIL_TAKEN', 'AUTH_PHONE_TAKEN', 'AUTH_THROTTLED'],
      handle: (call) => register(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/login',
      operation: 'login',
      summary: 'Sign in with e-mail and password',
      description:
        'Opens a session and returns its two tokens. Each login is a session of its own, so a repeat opens another one. Failures slow down further attempts: wait for `Retry-After` after `AUTH_THROTTLED`. Send the device token of the last sign-in, so that failures of others do not slow this browser.',
      tag: SESSIONS,
      guards: [],
      headers: [userAgent, deviceToken],
      body: { schema: 'auth/login-request', maxBytes: SMALL_BODY, anyMarks: ['/password'] },
      replies: [
        {
          status: 200,
          schema: 'auth/session-envelope',
          description: 'Account and the tokens of a new session',
          headers: DEVICE_TOKEN,
        },
      ],
      errors: ['AUTH_INVALID_CREDENTIALS', 'AUTH_ACCOUNT_DISABLED', 'AUTH_THROTTLED'],
      handle: (call) => login(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/refresh',
      operation: 'refresh',
      summary: 'Exchange a refresh token for a new pair of tokens',
      description:
        'Exchanges a refresh token, in the body or as `Authorization: Bearer`, for the next pair. The header is not read beside a token in the body, so an access token there does no harm. A token can be exchanged once. A repeat within 10 s is 401 and changes nothing; a later one counts as theft and ends the session. After a lost reply, log in.',
      tag: SESSIONS,
      guards: [tokenInHeader((token) => deps.signer.readRefresh(token) !== null)],
      body: { schema: 'auth/token-request', maxBytes: SMALL_BODY },
      replies: [
        {
          status: 200,
          schema: 'auth/session-envelope',
          description: 'Account and the new pair of tokens',
          headers: DEVICE_TOKEN,
        },
      ],
      errors: ['AUTH_INVALID_TOKEN', 'AUTH_ACCOUNT_DISABLED'],
      handle: (call) => refresh(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/logout',
      operation: 'logout',
      summary: 'End the session of a refresh token',
      description:
        'Ends the session of a refresh token, in the body or as `Authorization: Bearer`, and with it its access tokens and live streams. The header is not read beside a token in the body. A missing or invalid token, and a repeat, return 200 with `revoked: false`.',
      tag: SESSIONS,
      guards: [tokenInHeader()],
      body: { schema: 'auth/token-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'auth/revoked-reply', description: 'False if the token had no live session' }],
      errors: [],
      handle: (call) => logout(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/auth/me',
      operation: 'readMe',
      summary: 'Get the account of the access token',
      description:
        'Returns the account as it is stored now, not as the access token describes it. Call it where a session that has ended, a suspension or a new role must count at once.',
      tag: ACCOUNTS,
      guards: signedIn,
      replies: [{ status: 200, schema: 'auth/me-reply', description: 'Current account' }],
      errors: ['AUTH_INVALID_TOKEN', 'AUTH_ACCOUNT_DISABLED'],
      handle: (call) => readMe(deps, call),
    },
    {
      method: 'GET',
      path: '/v1/auth/sessions',
      operation: 'listSessions',
      summary: "List the caller's live sessions",
      description:
        'Returns the live sessions of the account, so that an owner finds a foreign one. `current` marks the session of this call.',
      tag: SESSIONS,
      guards: signedIn,
      replies: [{ status: 200, schema: 'auth/session-list', description: 'Live sessions, most recently used first' }],
      errors: ['AUTH_INVALID_TOKEN', 'AUTH_ACCOUNT_DISABLED'],
      handle: (call) => listSessions(deps, call),
    },
    {
      method: 'DELETE',
      path: '/v1/auth/sessions/:sessionId',
      operation: 'endSession',
      summary: 'End one session of the caller',
      description:
        'Ends one session of the account; it may be the current one. A repeat is 404 `SESSION_NOT_FOUND`, as for an unknown session and one of another account.',
      tag: SESSIONS,
      params: { sessionId: 'Id of the session, from the list of sessions' },
      guards: signedIn,
      replies: [{ status: 200, schema: 'auth/revoked-reply', description: 'Confirmation of the ended session' }],
      errors: ['AUTH_INVALID_TOKEN', 'AUTH_ACCOUNT_DISABLED', 'SESSION_NOT_FOUND'],
      handle: (call) => endOneSession(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/sessions/revoke-others',
      operation: 'endOtherSessions',
      summary: 'End all other sessions of the caller',
      description:
        'Ends every session of the account except that of this call, and returns their number. A repeat returns 0.',
      tag: SESSIONS,
      guards: signedIn,
      body: NO_FIELDS,
      replies: [{ status: 200, schema: 'auth/revoked-count', description: 'Number of sessions ended' }],
      errors: ['AUTH_INVALID_TOKEN', 'AUTH_ACCOUNT_DISABLED'],
      handle: (call) => endAllOtherSessions(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/password',
      operation: 'changePassword',
      summary: 'Change the password and end the other sessions',
      description:
        'Stores a new password, ends the other sessions and notifies the owner. A repeat after a lost reply is 401 `AUTH_INVALID_CREDENTIALS`, because the current password is then the new one.',
      tag: ACCOUNTS,
      guards: signedIn,
      headers: [deviceToken],
      body: { schema: 'auth/change-password-request', maxBytes: SMALL_BODY, anyMarks: ['/currentPassword'] },
      replies: [{ status: 200, schema: 'auth/revoked-count', description: 'Number of sessions ended' }],
      errors: [
        'AUTH_INVALID_TOKEN',
        'AUTH_ACCOUNT_DISABLED',
        'AUTH_WEAK_PASSWORD',
        'AUTH_INVALID_CREDENTIALS',
        'AUTH_THROTTLED',
      ],
      handle: (call) => changePassword(deps, call),
    },
  ];
}

/** Refuses every registration if no role may register. The body is not read, because no body would be accepted. */
function registrationOpen(deps: AuthDeps): Guard {
  return {
    name: 'registrationOpen',
    codes: ['AUTH_REGISTRATION_CLOSED'],
    headers: [],
    check: () => (deps.settings.selfRegisterRoles.size === 0 ? { rejected: 'AUTH_REGISTRATION_CLOSED' } : undefined),
  };
}
