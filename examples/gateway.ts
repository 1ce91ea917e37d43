// A gateway in one file: browsers get a cookie, and the tokens of its session stay on this server.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createClient, type Session, type SessionEnvelope, type SignedIn } from '@examhall/client';

/** Routes without a session, and routes of the account and the person behind one. All others stay closed. */
const UNSUBSCRIBE = /^\/v1\/notifications\/unsubscribe\?/;
const SIGN_IN = /^\/v1\/auth\/(login|register)$/;
const ACCOUNT = /^\/v1\/auth\/(me|sessions|password|logout)(\/|$)/;
const PERSONAL = /^\/v1\/(attempts|student|notifications|parent|push-key|push-subscriptions)(\/|\?|$)/;
const OUTWARD = ['content-type', 'cache-control', 'retry-after', 'x-request-id'];
const PAGE = new URL('inbox.html', import.meta.url);
const [MAX_BODY_BYTES, SESSION_SECONDS, DEVICE_SECONDS] = [1_048_576, 30 * 86_400, 400 * 86_400];

/** `publicUrl`: address of this gateway in browsers. */
type Settings = Readonly<Record<'examhallUrl' | 'gatewayToken' | 'publicUrl', string>>;

/** Opens the gateway. A request that examhall does not answer gets 502. @throws Error if browsers would send the cookie in plain text */
export function openGateway({ examhallUrl, gatewayToken, publicUrl }: Settings): Server {
  const { origin, protocol, hostname } = new URL(publicUrl);
  const [prefix, secure] = protocol === 'https:' ? ['__Host-', '; Secure'] : ['', ''];
  if (!secure && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname)) throw new Error(`${publicUrl} is not https`);
  const examhall = createClient({ baseUrl: examhallUrl, gatewayToken, timeoutMs: 30_000 });
  /** By the value of the cookie, oldest first. They end with this process. */
  const sessions = new Map<string, { session: Session; openedAt: number }>();

  return createServer((request, response) => {
    if (request.url === '/inbox') response.setHeader('content-type', 'text/html').end(readFileSync(PAGE));
    else answer(request, response).catch(() => (response.headersSent ? response.destroy() : fail(response, 502)));
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const { method = 'GET', url: path = '/', headers } = request;
    if (![SIGN_IN, ACCOUNT, PERSONAL].some((routes) => routes.test(path))) return fail(response, 404);
    const isUnsubscribe = UNSUBSCRIBE.test(path);
    // Beside SameSite, this keeps pages of other sites from signing a browser in to an account of theirs.
    if (!isUnsubscribe && (headers.origin ?? origin) !== origin) return fail(response, 403);
    const isTooLarge = headers['transfer-encoding'] || Number(headers['content-length'] ?? 0) > MAX_BODY_BYTES;
    if (isTooLarge) return fail(response, 413);
    const body = method === 'GET' ? null : await buffer(request);
    const device = cookieIn(headers, 'device');
    const session =
      isUnsubscribe || SIGN_IN.test(path) ? null : sessions.get(cookieIn(headers, 'session') ?? '')?.session;
    // With its device token, a browser signs in from a new network while strangers fail at the account.
    const caller = session === null ? examhall.with({ device }) : session;
    if (caller === undefined) return fail(response, 401);
    const left = new AbortController();
    response.on('close', () => left.abort());
    const address = request.socket.remoteAddress;
    const reply = await caller.forward({ method, path, headers, body, address, signal: left.signal });

    response.statusCode = reply.status;
    for (const header of OUTWARD)
      if (reply.headers.has(header)) response.setHeader(header, reply.headers.get(header) ?? '');
    const deviceToken = session?.deviceToken ?? reply.headers.get('x-device-token') ?? undefined;
    const signedIn = reply.ok && SIGN_IN.test(path) ? ((await reply.json()) as { data: SessionEnvelope }) : null;
    if (signedIn !== null) {
      setCookie(response, 'session', openSession({ ...signedIn.data, deviceToken }), SESSION_SECONDS);
    }
    if (deviceToken !== undefined && deviceToken !== device) setCookie(response, 'device', deviceToken, DEVICE_SECONDS);
    if (signedIn !== null) return response.end(JSON.stringify({ ...signedIn, data: { user: signedIn.data.user } }));
    return reply.body === null ? response.end() : pipeline(Readable.fromWeb(reply.body), response);
  }

  /** Opens a session, and returns the value of its cookie. The tokens stay here. */
  function openSession(issued: SignedIn): string {
    const [id, session, now] = [randomBytes(32).toString('base64url'), examhall.session(issued), Date.now()];
    for (const [key, { openedAt }] of sessions) if (openedAt < now - SESSION_SECONDS * 1_000) sessions.delete(key);
    sessions.set(id, { session, openedAt: now });
    session.ended.addEventListener('abort', () => sessions.delete(id));
    return id;
  }

  function cookieIn({ cookie = '' }: IncomingHttpHeaders, name: string): string | undefined {
    return new RegExp(`(?:^|; )${prefix}${name}=([\\w.-]+)`).exec(cookie)?.[1];
  }

  /** Sets a cookie that no script can read and no page of another site can send. */
  function setCookie(response: ServerResponse, name: string, value: string, seconds: number): void {
    const rules = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure}`;
    response.appendHeader('set-cookie', `${prefix}${name}=${value}; ${rules}`);
  }
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
