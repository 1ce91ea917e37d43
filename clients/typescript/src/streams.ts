import { createParser } from 'eventsource-parser';
import { addCredentials, type Credential, type Credentials, chosenCredentials } from './credentials.ts';
import { ExamhallError, errorOf } from './examhall-error.ts';
import { noReply, pauseFor, type RequestSettings, TIMEOUT_MS, urlOf } from './exchange.ts';
import {
  type BoardRow,
  type BoardSummary,
  type Job,
  type Notification,
  type ServerCode,
  STREAM_ROUTES,
} from './generated.ts';
import type { Arguments, StreamInputOf } from './operation.ts';

/** Id of an event, if it has one. After an iteration, pass the last one as `lastEventId` to continue there. */
interface Event<Name extends string, Data> {
  readonly event: Name;
  readonly data: Data;
  readonly id?: string;
}

/** Event of an inbox. `unreadCount` is always the whole count. */
export type InboxEvent =
  | Event<'snapshot', { readonly unreadCount: number }>
  | Event<'notification', { readonly notification: Notification }>
  | Event<'counts', { readonly unreadCount: number }>
  | Event<'heartbeat', { readonly at: string }>;

/** Event of a job. Each holds the whole job. */
export type JobEvent =
  | Event<'snapshot', { readonly job: Job }>
  | Event<'job.updated', { readonly job: Job }>
  | Event<'error', { readonly code: ServerCode; readonly message: string }>
  | Event<'heartbeat', { readonly at: string }>;

/** Event of the board of an exam. `rows` has the rows that have changed; read all of them by `readBoard` after each `snapshot`. */
export type BoardEvent =
  | Event<'snapshot', { readonly summary: BoardSummary }>
  | Event<'rows', { readonly rows: readonly BoardRow[] }>
  | Event<'summary', { readonly summary: BoardSummary }>
  | Event<'heartbeat', { readonly at: string }>;

export interface StreamOptions {
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal;
  /** Id of the last event of an earlier iteration. */
  readonly lastEventId?: string;
  /** Called before each further connection. It throws if the session of the user has ended, and so ends the iteration. */
  readonly beforeResume?: () => void | Promise<void>;
  /** Time without any event after which the connection counts as lost (ms). Default 45,000: three heartbeats. */
  readonly silenceMs?: number;
}

/** Live streams. Each iteration resumes by itself, and `break` closes its connection. */
export interface Streams<Known = never> {
  /** Follows the caller's inbox until the iteration is left. */
  inbox(...input: Arguments<StreamInputOf<'streamInbox', Known> & StreamOptions>): AsyncGenerator<InboxEvent, void>;
  /** Follows the board of an exam until the iteration is left. Each connection begins with a `snapshot`. */
  board(...input: Arguments<StreamInputOf<'streamBoard', Known> & StreamOptions>): AsyncGenerator<BoardEvent, void>;
  /** Follows a job until it has ended. */
  job(...input: Arguments<StreamInputOf<'streamJob', Known> & StreamOptions>): AsyncGenerator<JobEvent, void>;
}

type StreamName = keyof typeof STREAM_ROUTES;
type AnyInput = Credentials & StreamOptions;

/** Pause before a connection that follows a whole one (ms), unless the server names another. */
const RETRY_MS = 3_000;
const MAX_PAUSE_MS = 30_000;
const SILENCE_MS = 45_000;
const TERMINAL: ReadonlySet<unknown> = new Set(['COMPLETED', 'FAILED', 'CANCELLED'] satisfies Job['status'][]);

/** Returns the streams of a client. */
export function streamsOf(settings: RequestSettings): Streams<Credential> {
  return {
    inbox: (input: AnyInput = {}) => follow<InboxEvent>(settings, 'streamInbox', input, () => false),
    board: (input: AnyInput) => follow<BoardEvent>(settings, 'streamBoard', input, () => false),
    job: (input: AnyInput) => follow<JobEvent>(settings, 'streamJob', input, isLastOfJob),
  };
}

function isLastOfJob({ data }: JobEvent): boolean {
  return 'job' in data && TERMINAL.has(data.job.status);
}

/**
 * Yields events over as many connections as it takes. Each connection resumes after the last id. A first connection that fails is repeated
 * as often as a call; a later one without end, because the stream has worked before.
 *
 * @throws ExamhallError if a reply is final
 */
async function* follow<Item>(
  settings: RequestSettings,
  name: StreamName,
  input: AnyInput,
  isLast: (event: Item) => boolean,
): AsyncGenerator<Item, void> {
  const { transport } = settings;
  const { signal } = input;
  let { lastEventId } = input;
  let retryMs = RETRY_MS;
  let failures = 0;
  let hasWorked = false;
  for (let isFirst = true; !isAborted(signal); isFirst = false) {
    const connection = new AbortController();
    const end = () => connection.abort(signal?.reason);
    signal?.addEventListener('abort', end, { once: true });
    let pauseMs: number;
    try {
      if (!isFirst) await input.beforeResume?.();
      const response = await connect(settings, name, input, { lastEventId, connection });
      if (response === null) return;
      hasWorked = true;
      failures = 0;
      const setRetry = (ms: number) => {
        retryMs = ms;
      };
      for await (const message of readEvents(response, connection, {
        silenceMs: input.silenceMs ?? SILENCE_MS,
        setRetry,
      })) {
        lastEventId = message.id ?? lastEventId;
        const event = eventOf<Item>(message);
        yield event;
        if (isLast(event)) return;
      }
      pauseMs = retryMs * (0.8 + Math.random() * 0.4);
    } catch (error) {
      if (isAborted(signal)) return;
      failures += 1;
      if (!(error instanceof ExamhallError) || error.kind === 'final') throw error;
      if (!hasWorked && failures >= transport.tries) throw error;
      pauseMs = Math.max(hasWorked ? retryMs : 0, Math.min(MAX_PAUSE_MS, pauseFor(error, failures)), waitOf(error));
    } finally {
      signal?.removeEventListener('abort', end);
      connection.abort();
    }
    await transport.clock.pause(pauseMs, signal).catch(() => undefined);
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function waitOf({ retryAfterSeconds }: ExamhallError): number {
  return (retryAfterSeconds ?? 0) * 1_000;
}

interface Connection {
  readonly lastEventId: string | undefined;
  readonly connection: AbortController;
}

/** Opens one connection. Returns null if the server has nothing more to send. @throws ExamhallError for any other status but 200 */
async function connect(
  settings: RequestSettings,
  name: StreamName,
  input: AnyInput,
  { lastEventId, connection }: Connection,
): Promise<Response | null> {
  const { baseUrl, gatewayToken, credentials, transport, timeoutMs = TIMEOUT_MS } = settings;
  const route = STREAM_ROUTES[name];
  const headers = new Headers({ accept: 'text/event-stream' });
  addCredentials(headers, route, chosenCredentials(route, input, credentials), gatewayToken);
  if (lastEventId !== undefined) headers.set('last-event-id', lastEventId);
  const url = urlOf(baseUrl, route.path, input);
  const late = setTimeout(() => connection.abort(new Error('the stream did not begin in time')), timeoutMs);
  let response: Response;
  let text: string;
  try {
    response = await transport.fetch(url, { headers, signal: connection.signal, redirect: 'error' });
    if (response.status === 200) return response;
    text = await response.text();
  } catch (cause) {
    throw noReply(name, cause);
  } finally {
    clearTimeout(late);
  }
  if (response.status === 204) return null;
  throw errorOf(name, response, text);
}

function eventOf<Item>({ event, data, id }: EventMessage): Item {
  return { event, data: JSON.parse(data), ...(id === undefined ? {} : { id }) } as Item;
}

/** One message of a stream. */
interface EventMessage {
  readonly event?: string | undefined;
  readonly data: string;
  readonly id?: string | undefined;
}

interface ReadOptions {
  /** Time without a byte after which the connection is aborted (ms). */
  readonly silenceMs: number;
  /** Receives the pause that the server requires before the next connection (ms). */
  setRetry(ms: number): void;
}

/**
 * Yields the messages of a reply until it ends, breaks or is silent for too long: then the caller connects again. A message that was cut off
 * is not yielded.
 */
async function* readEvents(
  response: Response,
  connection: AbortController,
  { silenceMs, setRetry }: ReadOptions,
): AsyncGenerator<EventMessage, void> {
  if (response.body === null) return;
  const messages: EventMessage[] = [];
  const parser = createParser({ onEvent: (message) => messages.push(message), onRetry: setRetry });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (;;) {
    const silent = setTimeout(() => connection.abort(new Error('the stream is silent')), silenceMs);
    // A broken connection is like one that ends: the next one resumes after the last id.
    const chunk = await reader.read().catch(() => ({ done: true, value: undefined }));
    clearTimeout(silent);
    if (chunk.value === undefined) return;
    parser.feed(decoder.decode(chunk.value, { stream: true }));
    yield* messages.splice(0);
  }
}
