import { Agent } from 'node:http';
import { type HttpAnswer, type HttpCall, type HttpHeaders, NoReply, send } from '#testing/clients/call.ts';

export type HttpRequest = Pick<HttpCall, 'headers' | 'body'>;

// biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
export interface HttpReply<Data = any> {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
  json: any;
  /** `json.code`; null without one. */
  code: string | null;
  message: string;
  data: Data;
}

const callers = new Agent({ keepAlive: true, maxSockets: 64 });
const crowd = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
/** Twice the longest wait of a front door. */
const TIMEOUT_MS = 120_000;

/** Sends one request. Adds no header but Host, the length and, for a JSON body, its content type. */
export async function callHttp(
  origin: string,
  method: string,
  target: string,
  request: HttpRequest = {},
): Promise<HttpReply> {
  const call = { ...request, method, target, agent: callers };
  try {
    return replyOf(await send(origin, call));
  } catch (error) {
    // The front door may close an idle connection just as it is reused. The request was not read then and is safe to repeat.
    if (!(error instanceof NoReply) || !error.metIdleClose) throw error;
    return replyOf(await send(origin, call));
  }
}

/**
 * Sends one request, never twice; the number of concurrent requests is unbounded. Resolves with any status.
 * @throws NoReply if the connection ends without a reply
 */
export async function exchange<Data = unknown>(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: HttpHeaders; body?: unknown } = {},
): Promise<HttpReply<Data>> {
  const { origin, pathname, search } = new URL(url);
  const call = { method, target: pathname + search, headers, body, agent: crowd, timeoutMs: TIMEOUT_MS };
  return replyOf(await send(origin, call));
}

function replyOf({ status, headers, body }: HttpAnswer): HttpReply {
  const text = body.toString('utf8');
  const isJson = headers['content-type']?.startsWith('application/json') === true;
  const json = isJson && text !== '' ? JSON.parse(text) : undefined;
  const flat = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return {
    status,
    headers: Object.fromEntries(flat),
    text,
    json,
    code: json?.code ?? null,
    message: json?.message ?? '',
    data: json?.data,
  };
}
