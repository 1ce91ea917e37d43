import { createParser } from 'eventsource-parser';
import type { Dispatcher } from 'undici';
import type { StreamFold, WireRequest } from '#infra/models/wires/wire.ts';
import { isForbiddenAddress } from './guarded-agent.ts';

export interface HttpAnswer {
  status: number;
  headers: Headers;
  /** undefined = it was no JSON that can be read, or a stream that broke off. */
  body: unknown;
}

interface HttpCall {
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

/** Of any answer, unpacked. */
export const MOST_BYTES = 4 * 1024 * 1024;

async function* capped(response: Response): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MOST_BYTES) throw new CallFailed('oversize', { status: response.status });
    yield chunk;
  }
}

/** Deeper than any answer of any wire, and shallow enough for whoever walks through it. */
const MOST_DEPTH = 200;

/** The JSON of a body; undefined when it is none, or nested so deep that reading it could end in a stack overflow. */
function parseBody(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text);
    return isDeep(body) ? undefined : body;
  } catch {
    return undefined;
  }
}

function isDeep(body: unknown): boolean {
  let level: unknown[] = [body];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_DEPTH) return true;
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []));
  }
  return false;
}

/**
 * Feeds the events of a stream to `fold`; what comes back is the body that it makes of them, null when the end was not
 * among them. Bytes may be cut anywhere, also inside a letter, and the last event need not be closed by an empty line.
 */
async function readEvents(chunks: AsyncIterable<Uint8Array>, fold: StreamFold): Promise<unknown> {
  const decoder = new TextDecoder();
  const parser = createParser({ onEvent: (event) => fold.take(event) });
  for await (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }));
  parser.feed(decoder.decode());
  parser.reset({ consume: true });
  return fold.body();
}

/**
 * A call that brought no answer. `network`: refused, reset, cut, unresolved. `timeout`: ours ran out. `oversize`: the
 * answer grew over our cap. `address`: the name led where no provider may be asked. `request`: it could not even be sent.
 */
export class CallFailed extends Error {
  readonly kind: 'network' | 'timeout' | 'oversize' | 'address' | 'request';
  /** null = it broke before the head of an answer. */
  readonly status: number | null;

  constructor(kind: CallFailed['kind'], options: { status?: number | null; cause?: unknown } = {}) {
    super(`no answer: ${kind}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CallFailed';
    this.kind = kind;
    this.status = options.status ?? null;
  }
}
