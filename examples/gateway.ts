// A gateway in one file: it verifies the access tokens of the auth service and forwards requests with the identity of the account.
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import jwt from 'jsonwebtoken';

/** Routes without an identity, and routes of persons. Starts, events of services and `/v1/ops` stay closed. */
const OPEN = /^\/v1\/(auth\/|notifications\/unsubscribe\?)/;
const PERSONAL = /^\/v1\/(attempts|student|notifications|parent|push-key|push-subscriptions)(\/|\?|$)/;
const SESSION = /^\/v1\/auth\/(login|register|refresh)$/;
/** Headers that pass. All others, such as a forged `x-user-id`, are dropped. */
const INWARD = ['authorization', 'content-type', 'accept', 'user-agent', 'last-event-id', 'x-request-id'];
const OUTWARD = ['content-type', 'cache-control', 'retry-after', 'x-request-id'];
const PAGE = new URL('inbox.html', import.meta.url);

interface Settings {
  readonly examhallUrl: string;
  readonly jwtSecret: string;
  readonly gatewayToken: string;
}

/** Opens the gateway. A request that examhall does not answer gets 502. */
export function openGateway(settings: Settings): Server {
  return createServer((request, response) => {
    if (request.url === '/inbox') response.setHeader('content-type', 'text/html').end(readFileSync(PAGE));
    else
      forward(request, response, settings).catch(() =>
        response.headersSent ? response.destroy() : end(response, 502),
      );
  });
}

async function forward(request: IncomingMessage, response: ServerResponse, settings: Settings): Promise<unknown> {
  const { method = 'GET', url = '/', headers } = request;
  const target = new URL(settings.examhallUrl + url);
  // `fetch` would resolve `..`, and so reach a route that the patterns keep closed.
  if (target.pathname + target.search !== url || !(OPEN.test(url) || PERSONAL.test(url))) return end(response, 404);
  const identity = OPEN.test(url) ? {} : identityOf(headers, settings);
  if (identity === null) return end(response, 401);
  const passed = Object.fromEntries(INWARD.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])));
  const left = new AbortController();
  response.on('close', () => left.abort());
  // examhall limits bodies and counts failed logins by this address, which it believes of TRUSTED_PROXIES.
  const from = { 'x-forwarded-for': String(request.socket.remoteAddress) };
  const body = method === 'GET' || method === 'HEAD' ? null : Readable.toWeb(request);
  const init = { method, body, duplex: 'half', redirect: 'manual', signal: left.signal } as RequestInit;
  const reply = await fetch(target, { ...init, headers: { ...passed, ...identity, ...from } });
  for (const name of OUTWARD) if (reply.headers.has(name)) response.setHeader(name, reply.headers.get(name) ?? '');
  response.statusCode = reply.status;
  if (reply.body === null) return response.end();
  if (!reply.ok || !SESSION.test(url)) return pipeline(Readable.fromWeb(reply.body), response);
  // No script can read this cookie, and no page of another site can send it.
  const session = await reply.text();
  const { accessToken, expiresIn } = JSON.parse(session).data;
  response.setHeader('set-cookie', `access=${accessToken}; HttpOnly; SameSite=Strict; Path=/v1; Max-Age=${expiresIn}`);
  return response.end(session);
}

/** Returns the identity headers of a valid access token, from a header or the cookie, or null. */
function identityOf(headers: IncomingMessage['headers'], { jwtSecret, gatewayToken }: Settings) {
  const [, bearer] = /^Bearer (.+)$/i.exec(headers.authorization ?? '') ?? [];
  const [, cookie] = /(?:^|; )access=([^;]+)/.exec(headers.cookie ?? '') ?? [];
  try {
    const options = { algorithms: ['HS256' as const], issuer: 'examhall', complete: true as const };
    const { header, payload } = jwt.verify(bearer ?? cookie ?? '', jwtSecret, options);
    if (header.typ !== 'at+jwt' || typeof payload === 'string' || payload.type !== 'access') return null;
    const { sub = '', role, defaultOrganizationId: organization } = payload;
    const caller = { 'x-user-id': sub, 'x-user-role': role, 'x-actor-id': sub, 'x-actor-role': role };
    return { ...caller, 'x-gateway-token': gatewayToken, ...(organization && { 'x-organization-id': organization }) };
  } catch {
    return null;
  }
}

function end(response: ServerResponse, status: number): void {
  response.statusCode = status;
  response.end();
}

if (import.meta.main) {
  const {
    EXAMHALL_URL = 'http://127.0.0.1:3000',
    AUTH_JWT_SECRET = '',
    GATEWAY_TOKEN = '',
    PORT = '8080',
  } = process.env;
  const gateway = openGateway({ examhallUrl: EXAMHALL_URL, jwtSecret: AUTH_JWT_SECRET, gatewayToken: GATEWAY_TOKEN });
  gateway.listen(Number(PORT), '127.0.0.1', () => console.log(`inbox: http://127.0.0.1:${PORT}/inbox`));
}
