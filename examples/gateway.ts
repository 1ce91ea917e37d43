// A gateway in one file: it stores the tokens of each session, and forwards requests with the identity of the account.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';

/** Routes without a session, routes of the account, which read its token, and routes of persons. All others stay closed. */
const UNSUBSCRIBE = /^\/v1\/notifications\/unsubscribe\?/;
const SIGN_IN = /^\/v1\/auth\/(login|register)$/;
const ACCOUNT = /^\/v1\/auth\/(me|sessions|password|logout)(\/|$)/;
const PERSONAL = /^\/v1\/(attempts|student|notifications|parent|push-key|push-subscriptions)(\/|\?|$)/;
/** Headers that pass. All others, such as a forged `x-user-id`, are dropped. */
const INWARD = ['content-type', 'accept', 'user-agent', 'last-event-id', 'x-request-id'];
const OUTWARD = ['content-type', 'cache-control', 'retry-after', 'x-request-id'];
const PAGE = new URL('inbox.html', import.meta.url);
const [REPLY_MS, MARGIN_MS, MAX_BODY_BYTES, SESSION_SECONDS] = [30_000, 30_000, 1_048_576, 30 * 86_400];

/** `publicUrl`: address of this gateway in browsers. */
type Settings = Readonly<Record<'examhallUrl' | 'gatewayToken' | 'publicUrl', string>>;
type Account = { id: string; role: string; defaultOrganizationId: string | null };
type Issued = { user: Account; accessToken: string; refreshToken: string; expiresIn: number };
type Tokens = Omit<Issued, 'expiresIn'> & { freshUntil: number };
type Session = { tokens: Tokens; ended: AbortController; refreshing?: Promise<boolean> | undefined };

/** Opens the gateway. A request that examhall does not answer gets 502. @throws Error if browsers would send the cookie in plain text */
export function openGateway({ examhallUrl, gatewayToken, publicUrl }: Settings): Server {
  const { origin, protocol, hostname } = new URL(publicUrl);
  const isSecure = protocol === 'https:';
  if (!isSecure && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname)) throw new Error(`${publicUrl} is not https`);
  const cookieName = isSecure ? '__Host-session' : 'session';
  const cookieOf = new RegExp(`(?:^|; )${cookieName}=([\\w-]+)`);
  /** By the value of the cookie. More than one gateway, or a restart, requires a store outside the process. */
  const sessions = new Map<string, Session>();

  return createServer((request, response) => {
    if (request.url === '/inbox') response.setHeader('content-type', 'text/html').end(readFileSync(PAGE));
    else forward(request, response).catch(() => (response.headersSent ? response.destroy() : fail(response, 502)));
  });

  async function forward(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { method = 'GET', url = '/', headers } = request;
    const target = URL.parse(examhallUrl + url);
    // `fetch` would resolve `..`, and so reach a route that the patterns keep closed.
    const isPlain = target !== null && target.pathname + target.search === url;
    if (!isPlain || ![SIGN_IN, ACCOUNT, PERSONAL].some((routes) => routes.test(url))) return fail(response, 404);
    const isUnsubscribe = UNSUBSCRIBE.test(url);
    // Beside SameSite, this keeps pages of other sites from signing a browser in to an account of theirs.
    if (!isUnsubscribe && (headers.origin ?? origin) !== origin) return fail(response, 403);
    if (headers['transfer-encoding'] || Number(headers['content-length'] ?? 0) > MAX_BODY_BYTES)
      return fail(response, 413);
    const body = method === 'GET' || method === 'HEAD' ? null : await buffer(request);
    // examhall counts failed logins by this address, which it believes of TRUSTED_PROXIES.
    const passed: Record<string, string> = { 'x-forwarded-for': String(request.socket.remoteAddress) };
    for (const name of INWARD) if (headers[name] !== undefined) passed[name] = String(headers[name]);
    const [, id = ''] = cookieOf.exec(headers.cookie ?? '') ?? [];
    const isOpen = isUnsubscribe || SIGN_IN.test(url);
    const session = isOpen ? undefined : sessions.get(id);
    const isFresh = session !== undefined && (session.tokens.freshUntil > Date.now() || (await refresh(id, session)));
    if (!isOpen && !isFresh) return fail(response, 401);

    const left = new AbortController();
    response.on('close', () => left.abort());
    const send = () => {
      // A stream ends with its access token, or with its session. The browser opens it again, and gets one with the next token.
      const isStream = session !== undefined && url.endsWith('/stream');
      const limit = AbortSignal.timeout(isStream ? Math.max(0, session.tokens.freshUntil - Date.now()) : REPLY_MS);
      const signal = AbortSignal.any([left.signal, limit, ...(isStream ? [session.ended.signal] : [])]);
      const sent = { ...passed, ...(session && credentialsOf(session.tokens, url)) };
      return fetch(target, { method, body, redirect: 'manual', signal, headers: sent });
    };
    let reply = await send();
    // A wrong password is a 401 as well. It is sent once, because each counts as a failure.
    const isRefused = reply.status === 401 && (await reply.clone().text()).includes('"AUTH_INVALID_TOKEN"');
    if (session !== undefined && isRefused && (await refresh(id, session))) reply = await send();

    response.statusCode = reply.status;
    for (const name of OUTWARD) if (reply.headers.has(name)) response.setHeader(name, reply.headers.get(name) ?? '');
    if (session !== undefined && url === '/v1/auth/logout') end(id, session);
    if (reply.ok && SIGN_IN.test(url)) return signIn(response, (await reply.json()) as { data: Issued });
    return reply.body === null ? response.end() : pipeline(Readable.fromWeb(reply.body), response);
  }

  /** Opens a session, and answers without its tokens. No script can read the cookie, and no page of another site can send it. */
  function signIn(response: ServerResponse, { data, ...envelope }: { data: Issued }): void {
    const [id, oldest] = [randomBytes(32).toString('base64url'), Date.now() - SESSION_SECONDS * 1_000];
    for (const [key, { tokens }] of sessions) if (tokens.freshUntil < oldest) sessions.delete(key);
    sessions.set(id, { tokens: tokensOf(data), ended: new AbortController() });
    const cookie = `${cookieName}=${id}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${SESSION_SECONDS}`;
    response.setHeader('set-cookie', isSecure ? `${cookie}; Secure` : cookie);
    response.end(JSON.stringify({ ...envelope, data: { user: data.user } }));
  }

  /** Exchanges the refresh token, once for all requests that wait. Returns false if examhall has ended the session. */
  function refresh(id: string, session: Session): Promise<boolean> {
    const exchange = async () => {
      const headers = { authorization: `Bearer ${session.tokens.refreshToken}` };
      const init = { method: 'POST', headers, signal: AbortSignal.timeout(REPLY_MS) };
      const reply = await fetch(`${examhallUrl}/v1/auth/refresh`, init);
      if (reply.ok) session.tokens = tokensOf(((await reply.json()) as { data: Issued }).data);
      else if (reply.status === 401 || reply.status === 403) end(id, session);
      else throw new Error(`refresh answered ${reply.status}`);
      return reply.ok;
    };
    session.refreshing ??= exchange().finally(() => {
      session.refreshing = undefined;
    });
    return session.refreshing;
  }

  /** Forgets a session and ends its streams. */
  function end(id: string, session: Session): void {
    sessions.delete(id);
    session.ended.abort();
  }

  /** Returns the headers of a session: its token for the routes of its account, otherwise its identity. */
  function credentialsOf({ user, accessToken, refreshToken }: Tokens, url: string): Record<string, string> {
    if (ACCOUNT.test(url)) return { authorization: `Bearer ${url.endsWith('/logout') ? refreshToken : accessToken}` };
    const { id, role, defaultOrganizationId: organization } = user;
    const caller = { 'x-user-id': id, 'x-user-role': role, 'x-actor-id': id, 'x-actor-role': role };
    return { ...caller, 'x-gateway-token': gatewayToken, ...(organization && { 'x-organization-id': organization }) };
  }
}

function tokensOf({ user, accessToken, refreshToken, expiresIn }: Issued): Tokens {
  return { user, accessToken, refreshToken, freshUntil: Date.now() + expiresIn * 1_000 - MARGIN_MS };
}

/** Answers in the form of examhall's own failures. */
function fail(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ success: false, code: 'GATEWAY_REFUSED', message: STATUS_CODES[status] }));
}

if (import.meta.main) {
  const { EXAMHALL_URL = 'http://127.0.0.1:3000', GATEWAY_TOKEN = '', PORT = '8080' } = process.env;
  const { PUBLIC_URL = `http://127.0.0.1:${PORT}` } = process.env;
  const gateway = openGateway({ examhallUrl: EXAMHALL_URL, gatewayToken: GATEWAY_TOKEN, publicUrl: PUBLIC_URL });
  gateway.listen(Number(PORT), '127.0.0.1', () => console.log(`inbox: ${PUBLIC_URL}/inbox`));
}
