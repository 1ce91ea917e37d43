import { accessToken, tokenInHeader } from '#api/http/guards/tokens.ts';
import { type Guard, NO_FIELDS, type Route, SMALL_BODY } from '#api/route.ts';
import { registrationFaults } from '#shared/auth/registration.ts';
import { changePassword, readMe, register } from './account.ts';
import type { AuthDeps } from './deps.ts';
import { login } from './login.ts';
import { endAllOtherSessions, endOneSession, listSessions, logout, refresh } from './sessions.ts';

/** Returns the auth service's routes: accounts, sessions and tokens. */
export function authRoutes(deps: AuthDeps): Route[] {
  const signedIn = [accessToken((token) => deps.signer.readAccess(token))];
  const userAgent = [
    { name: 'user-agent', required: false, description: 'Stored with the session and shown in the list of sessions' },
  ];
  return [
    {
      method: 'POST',
      path: '/v1/auth/register',
      operation: 'register',
      summary: 'Register an account and sign in',
      guards: [registrationOpen(deps)],
      headers: userAgent,
      body: {
        schema: 'auth/register-request',
        maxBytes: SMALL_BODY,
        moreFaults: (body, known) => registrationFaults(body, known, deps.settings.selfRegisterRoles),
      },
      replies: [{ status: 201, schema: 'auth/session-envelope', description: 'New account and its tokens' }],
      errors: ['AUTH_WEAK_PASSWORD', 'AUTH_EMAIL_TAKEN', 'AUTH_PHONE_TAKEN'],
      handle: (call) => register(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/login',
      operation: 'login',
      summary: 'Sign in with e-mail and password',
      guards: [],
      headers: userAgent,
      body: { schema: 'auth/login-request', maxBytes: SMALL_BODY },
      replies: [
        { status: 200, schema: 'auth/session-envelope', description: 'Account and the tokens of a new session' },
      ],
      errors: ['AUTH_INVALID_CREDENTIALS', 'AUTH_ACCOUNT_DISABLED', 'AUTH_THROTTLED'],
      handle: (call) => login(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/refresh',
      operation: 'refresh',
      summary: 'Exchange a refresh token for a new pair of tokens',
      guards: [tokenInHeader((token) => deps.signer.readRefresh(token) !== null)],
      body: { schema: 'auth/token-request', maxBytes: SMALL_BODY },
      replies: [{ status: 200, schema: 'auth/session-envelope', description: 'Account and the new pair of tokens' }],
      errors: ['AUTH_INVALID_TOKEN', 'AUTH_ACCOUNT_DISABLED'],
      handle: (call) => refresh(deps, call),
    },
    {
      method: 'POST',
      path: '/v1/auth/logout',
      operation: 'logout',
      summary: 'End the session of a refresh token',
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
      guards: signedIn,
      body: { schema: 'auth/change-password-request', maxBytes: SMALL_BODY },
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
