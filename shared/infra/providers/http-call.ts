import type { Dispatcher } from 'undici';
import type { StreamFold, WireRequest } from '#infra/providers/wires/wire.ts';
import { CallFailed } from './call-failed.ts';
import { isForbiddenAddress } from './guarded-agent.ts';
import { parseBody } from './parse-body.ts';
import { readEvents } from './read-events.ts';

/** Of any answer, unpacked. */
export const MOST_BYTES = 4 * 1024 * 1024;

export interface HttpAnswer {
  status: number;
  headers: Headers;
  /** undefined = it was no JSON that can be read, or a stream that broke off. */
  body: unknown;
}

export interface HttpCall {
  request: WireRequest;
  /** Takes the events where an answer comes as a stream; one that comes as JSON all the same is read as that. */
  fold: StreamFold | null;
  /** Over connect, headers and body together (ms). */
  timeoutMs: number;
  signal: AbortSignal;
  dispatcher: Dispatcher;
}

/**
 * One POST to a provider. Any answer is one, whatever its status. Redirects are not followed: a key goes to the address
 * that was checked and to no other.
 * @throws CallFailed, or the signal's reason when it was aborted
 */
export async function callProvider(call: HttpCall): Promise<HttpAnswer> {
  const timeout = new AbortController();
  // Not AbortSignal.timeout: its timer would not keep a short-lived process from ending in the middle of a call.
  const timer = setTimeout(() => timeout.abort(), call.timeoutMs);
  let status: number | null = null;
  try {
    const response = await send(call, AbortSignal.any([timeout.signal, call.signal]));
    status = response.status;
    return { status, headers: response.headers, body: await bodyOf(response, call.fold) };
  } catch (error) {
    call.signal.throwIfAborted();
    if (error instanceof CallFailed) throw error;
    if (timeout.signal.aborted) throw new CallFailed('timeout', { status });
    throw new CallFailed(isForbiddenAddress(error) ? 'address' : 'network', { status, cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function send({ request, dispatcher, fold }: HttpCall, signal: AbortSignal): Promise<Response> {
  const init = {
    method: 'POST',
    redirect: 'manual',
    signal,
    dispatcher,
    headers: headersOf(request, fold !== null),
    body: JSON.stringify(request.body),
  };
  // Node's fetch takes any dispatcher of its undici's generation; the two packages' types differ in a corner that nobody uses.
  return fetch(request.url, init as unknown as RequestInit);
}

function headersOf({ headers }: WireRequest, streams: boolean): Headers {
  try {
    return new Headers({
      'content-type': 'application/json',
      accept: streams ? 'text/event-stream' : 'application/json',
      ...headers,
    });
  } catch {
    // Without the cause, which quotes the header, and that may be the key.
    throw new CallFailed('request');
  }
}

async function bodyOf(response: Response, fold: StreamFold | null): Promise<unknown> {
  const chunks = capped(response);
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (response.ok && fold !== null && isStream) return (await readEvents(chunks, fold)) ?? undefined;
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return parseBody(Buffer.concat(parts).toString('utf8'));
}

async function* capped(response: Response): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MOST_BYTES) throw new CallFailed('oversize', { status: response.status });
    yield chunk;
  }
}
