import { Agent } from 'node:http';
import { type HttpAnswer, type HttpCall, type HttpHeaders, NoReply, send } from '#scripts/http/call.ts';

export type HttpRequest = Pick<HttpCall, 'headers' | 'body'>;

// biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
export interface HttpReply<Data = any> {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  text: string;
  /** The parsed body; undefined where it is no JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
  json: any;
  /** `json.code`; null without one. */
  code: string | null;
  /** `json.message`; empty without one. */
  message: string;
  /** `json.data`. */
  data: Data;
}

const callers = new Agent({ keepAlive: true, maxSockets: 64 });
const crowd = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const PATIENCE_MS = 60_000;

/** One request, exactly as told: no header but Host, length and, for a JSON body, its type is added. */
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
    // A kept connection may be closed by the door just as it is used again; the request has not been read then.
    if (!(error instanceof NoReply) || !error.metIdleClose) throw error;
    return replyOf(await send(origin, call));
  }
}

/** One request that is never sent twice, beside any number of others. Rejects with NoReply; every status is an answer. */
export async function exchange<Data = unknown>(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: HttpHeaders; body?: unknown } = {},
): Promise<HttpReply<Data>> {
  const { origin, pathname, search } = new URL(url);
  const call = { method, target: pathname + search, headers, body, agent: crowd, patienceMs: PATIENCE_MS };
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
