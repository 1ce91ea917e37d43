import { isUtf8 } from 'node:buffer';
import { createParser } from 'eventsource-parser';
import type { Dispatcher } from 'undici';
import type { StreamFold, WireRequest } from '#infra/models/wires/wire.ts';
import { inCall } from '#infra/trace/spans.ts';
import { MAX_ANSWER_DEPTH } from '#shared/classifier/tasks/read-answer.ts';
import { isDeeperThan } from '#shared/kernel/json.ts';
import { parseJsonText } from '#shared/kernel/parse-json.ts';
import { isForbiddenAddress } from './guarded-agent.ts';

export interface HttpAnswer {
  status: number;
  headers: Headers;
  /** undefined if the body is not readable JSON or the stream ended early. */
  body: unknown;
}

interface HttpCall {
  request: WireRequest;
  /** Receives the events of a streamed answer. A JSON answer is read as JSON even if a stream was requested. */
  fold: StreamFold | null;
  /** Ms for connect, headers and body together. */
  timeoutMs: number;
  signal: AbortSignal;
  dispatcher: Dispatcher;
}

/**
 * Sends one POST to a provider and returns its answer, whatever the status. Redirects are not followed, so that the key is
 * sent only to the address that was checked.
 * @throws CallFailed, or the signal's reason if it was aborted
 */
export async function callProvider(call: HttpCall): Promise<HttpAnswer> {
  const timeout = new AbortController();
  // AbortSignal.timeout is unsuitable: its timer does not keep the process alive, so a short process could end during a call.
  const timer = setTimeout(() => timeout.abort(), call.timeoutMs);
  let status: number | null = null;
  try {
    // A provider is no part of the system: it gets neither the id of the request nor that of the trace.
    return await inCall({ method: 'POST', url: call.request.url }, async (sent) => {
      const response = await send(call, AbortSignal.any([timeout.signal, call.signal]));
      status = response.status;
      sent.answered(status);
      return { status, headers: response.headers, body: await bodyOf(response, call) };
    });
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
  // Node's fetch accepts dispatchers of undici's same generation. The types of both packages differ only in unused parts.
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
    // The cause is omitted, because it quotes the header, which may contain the key.
    throw new CallFailed('request');
  }
}

async function bodyOf(response: Response, { fold, signal }: Pick<HttpCall, 'fold' | 'signal'>): Promise<unknown> {
  const chunks = capped(response);
  const isStream = response.headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') === true;
  if (response.ok && fold !== null && isStream) return (await readEvents(chunks, fold, signal)) ?? undefined;
  const bytes = openBytes();
  for await (const chunk of chunks) bytes.add(chunk);
  return parseBody(bytes.take());
}

/** Opens one growing buffer. A list of chunks would take a hundred bytes for each, and a server may send them one byte long. */
function openBytes() {
  let [held, length] = [Buffer.allocUnsafe(16_384), 0];
  return {
    add(chunk: Uint8Array): void {
      const needed = length + chunk.byteLength;
      if (needed > held.length) held = Buffer.concat([held.subarray(0, length)], Math.max(needed, 2 * held.length));
      held.set(chunk, length);
      length = needed;
    },
    /** Returns a copy of the bytes, and begins anew. */
    take(): Buffer {
      const taken = Buffer.from(held.subarray(0, length));
      length = 0;
      return taken;
    },
  };
}

/** Maximum size of a decompressed answer in bytes. A larger answer fails with `oversize`. */
export const MAX_BYTES = 4 * 1024 * 1024;

async function* capped(response: Response): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_BYTES) throw new CallFailed('oversize', { status: response.status });
    yield chunk;
  }
}

/** Returns the JSON of a body, or undefined if it is invalid or so deeply nested that reading could overflow the stack. */
function parseBody(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) return undefined;
  try {
    const body: unknown = parseJsonText(bytes.toString('utf8').replace(/^\uFEFF/, ''));
    return isDeeperThan(MAX_ANSWER_DEPTH, body) ? undefined : body;
  } catch {
    return undefined;
  }
}

/** Returns true for a part of an object outside of a data line, as after a comment's colon. The parser skips it without an error. */
function isStray(line: string): boolean {
  return !/^\uFEFF?data:/.test(line) && /[{}]/.test(line);
}

/** Lines with their ends. JSON texts may contain U+2028 and U+2029, which end no line of a stream. */
const LINES = /[^\r\n]*(?:\r\n|\r|\n)/g;
const [LF, CR] = [0x0a, 0x0d];

/**
 * Passes the events of a stream to `fold` until its end mark, and returns the resulting body, or null if the answer is not whole. Chunks may
 * split a character, and the last event may lack its closing empty line. After the reason why the answer ended, the answer is whole even
 * if the stream breaks or the time limit expires. Only the end mark or the count of tokens is missing then.
 */
export async function readEvents(
  chunks: AsyncIterable<Uint8Array>,
  fold: StreamFold,
  signal: AbortSignal,
): Promise<unknown> {
  const parser = createParser({ onEvent: (event) => fold.take(event), onError: () => fold.spoil() });
  /** The bytes of the line that has no end yet. */
  const open = openBytes();
  const feed = (bytes: Uint8Array) => {
    const end = Math.max(bytes.lastIndexOf(LF), bytes.lastIndexOf(CR)) + 1;
    if (end > 0) {
      open.add(bytes.subarray(0, end));
      const lines = open.take();
      if (!isUtf8(lines)) fold.spoil();
      // Whole lines only: the parser skips a damaged line without an error if its end is in a later chunk.
      for (const [line] of lines.toString('utf8').matchAll(LINES)) {
        if (isStray(line)) fold.spoil();
        parser.feed(line);
      }
    }
    open.add(bytes.subarray(end));
  };
  const bodyAtEnd = () => {
    const whole = fold.body();
    feed(Buffer.of(LF, LF));
    return fold.body() ?? whole;
  };

  try {
    for await (const chunk of chunks) {
      feed(chunk);
      if (fold.isOver()) return fold.body();
    }
  } catch (error) {
    const body = error instanceof CallFailed || signal.aborted ? null : bodyAtEnd();
    if (body === null) throw error;
    return body;
  }
  return bodyAtEnd();
}

/**
 * A call without an answer. `network`: the connection was refused, reset or cut, or the name did not resolve. `timeout`: our
 * time limit expired. `oversize`: the answer exceeded MAX_BYTES. `address`: the name resolved to a forbidden address.
 * `request`: the request could not be built.
 */
export class CallFailed extends Error {
  readonly kind: 'network' | 'timeout' | 'oversize' | 'address' | 'request';
  /** null if the call failed before the head of an answer arrived. */
  readonly status: number | null;

  constructor(kind: CallFailed['kind'], options: { status?: number | null; cause?: unknown } = {}) {
    super(`no answer: ${kind}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CallFailed';
    this.kind = kind;
    this.status = options.status ?? null;
  }
}
