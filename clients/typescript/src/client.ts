import { addCredentials, type Credential, type Credentials, chosenCredentials } from './credentials.ts';
import { ExamhallError } from './examhall-error.ts';
import {
  type Clock,
  type Exchange,
  exchange,
  MACHINE_CLOCK,
  type Reply,
  type RequestSettings,
  type SentRequest,
  TIMEOUT_MS,
  type Transport,
  urlOf,
} from './exchange.ts';
import { type ForwardedRequest, forward } from './forward.ts';
import { ROUTES, type SessionEnvelope } from './generated.ts';
import type {
  Arguments,
  CallOptions,
  FollowOptions,
  InputOf,
  KeyOptions,
  OperationName,
  Outcome,
  PendingName,
  ResultOf,
  SignedIn,
} from './operation.ts';
import { FOLLOW_RULES, isReplaySafe, keyedBody, pollPauseMs, SLOW_OPERATIONS } from './operation-rules.ts';
import { openSession, type Session } from './session.ts';
import { type Streams, streamsOf } from './streams.ts';

export interface ClientOptions {
  /** Address of the front doors, such as `https://examhall.internal`. */
  readonly baseUrl: string;
  /** `GATEWAY_TOKEN` of the cluster, sent beside every identity. */
  readonly gatewayToken?: string | undefined;
  /** Most requests of one call, the first included. Default 4. */
  readonly tries?: number;
  /** Time limit of one request (ms). Default 15,000; previews of the AI classifier 240,000. */
  readonly timeoutMs?: number;
  /** Time limit of a call with its repeats and the wait for its result (ms). Default 60,000; previews have none. */
  readonly deadlineMs?: number;
  /** Longest pause before a repeat (ms); a reply that requires a longer one is thrown. Default 30,000. */
  readonly maxPauseMs?: number;
  /** Receives each request of every call after its end, for metrics. Streams and `forward` report none. */
  readonly observe?: (sent: SentRequest) => void;
  /** Default: the runtime's own. */
  readonly fetch?: typeof fetch;
  /** For tests. */
  readonly clock?: Clock;
}

/** One method for each operation. `Known` names the credentials that the client adds to each call that reads them. */
export type Client<Known extends Credential = never> = {
  readonly [Name in OperationName]: (...input: Arguments<InputOf<Name, Known>>) => Promise<ResultOf<Name>>;
} & {
  readonly streams: Streams<Known>;
  /** Returns a session of the account that `login` or `register` returned. It has none of this client's credentials. */
  session(issued: SignedIn): Session;
  /** Sends a request of a browser once, with this client's credentials, and returns the reply as it is: a gateway's way to a login. */
  forward(request: ForwardedRequest): Promise<Response>;
  /** Returns a client that also adds these credentials. It shares everything else with this one. */
  with<Given extends Credentials>(given: Given): Client<Known | Extract<keyof Given, Credential>>;
};

type Settings = ClientOptions & RequestSettings;

/** Input of any operation. */
interface AnyInput extends Credentials, CallOptions, KeyOptions, FollowOptions {
  readonly query?: object;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
}

const TRIES = 4;
const DEADLINE_MS = 60_000;
const MAX_PAUSE_MS = 30_000;

/** Returns a client of a cluster. It opens no connection. @throws TypeError if `baseUrl` is not an address */
export function createClient(options: ClientOptions): Client {
  void new URL(options.baseUrl);
  const transport: Transport = {
    fetch: options.fetch ?? fetch,
    clock: options.clock ?? MACHINE_CLOCK,
    tries: options.tries ?? TRIES,
    maxPauseMs: options.maxPauseMs ?? MAX_PAUSE_MS,
  };
  return clientOf({ ...options, transport, credentials: {} });
}

function clientOf(settings: Settings): Client {
  const calls = (Object.keys(ROUTES) as OperationName[]).map((name) => [
    name,
    (input: AnyInput = {}) => call(settings, name, input),
  ]);
  const client = {
    ...Object.fromEntries(calls),
    streams: streamsOf(settings),
    session: (issued: SignedIn) =>
      openSession(clientOf({ ...settings, credentials: {} }), settings.transport.clock, issued),
    forward: (request: ForwardedRequest) => forward(settings, request),
    with: (given: Credentials) => clientOf({ ...settings, credentials: { ...settings.credentials, ...given } }),
  };
  // The types of all methods follow from the table that made them.
  return client as unknown as Client;
}

async function call(settings: Settings, name: OperationName, input: AnyInput): Promise<unknown> {
  const request = requestOf(settings, name, input);
  const reply = await exchange(settings.transport, request);
  if (reply.deviceToken !== null) return { ...(reply.data as SessionEnvelope), deviceToken: reply.deviceToken };
  if (!(name in FOLLOW_RULES)) return reply.data;
  if (reply.status !== 202) return { done: true, data: reply.data };
  if (input.follow === false) return { done: false, data: reply.data };
  return followed(settings, { name: name as PendingName, input, request }, reply);
}

function requestOf(settings: Settings, name: OperationName, input: AnyInput): Exchange {
  const route = ROUTES[name];
  const key = input.idempotencyKey ?? crypto.randomUUID();
  const headers = new Headers();
  for (const [header, value] of Object.entries(input.headers ?? {})) {
    if (value !== undefined) headers.set(header, value);
  }
  addCredentials(headers, route, chosenCredentials(route, input, settings.credentials), settings.gatewayToken);
  if (route.readsKey) headers.set('idempotency-key', key);
  if (route.isMinimal) headers.set('prefer', 'return=minimal');
  if (input.requestId !== undefined) headers.set('x-request-id', input.requestId);
  if (input.traceparent !== undefined) headers.set('traceparent', input.traceparent);
  const body = keyedBody(name, input.body, key);
  if (body !== undefined) headers.set('content-type', 'application/json');
  const slow = SLOW_OPERATIONS[name];
  const deadlineMs = input.deadlineMs ?? (slow === undefined ? (settings.deadlineMs ?? DEADLINE_MS) : Infinity);
  return {
    operation: name,
    url: urlOf(settings.baseUrl, route.path, input),
    method: route.method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    isReplaySafe: input.repeatInDoubt === true || isReplaySafe(name, route, body),
    timeoutMs: input.timeoutMs ?? slow ?? settings.timeoutMs ?? TIMEOUT_MS,
    giveUpAt: settings.transport.clock.now() + deadlineMs,
    signal: input.signal,
    observe(sent) {
      settings.observe?.(sent);
      input.observe?.(sent);
    },
  };
}

interface Accepted {
  readonly name: PendingName;
  readonly input: AnyInput;
  readonly request: Exchange;
}

/** Polls the result of a 202 until it is there or the deadline of the call has passed. */
async function followed(
  settings: Settings,
  { name, input, request }: Accepted,
  accepted: Reply,
): Promise<Outcome<unknown, unknown>> {
  const { transport } = settings;
  const rule = FOLLOW_RULES[name];
  const { as, service, token, signal, timeoutMs, observe } = input;
  let { data } = accepted;
  for (let reads = 0; ; reads += 1) {
    const pauseMs = pollPauseMs(reads);
    if (transport.clock.now() + pauseMs > request.giveUpAt) return { done: false, data };
    await transport.clock.pause(pauseMs, signal);
    const next =
      rule === 'again'
        ? request
        : {
            ...requestOf(settings, rule.operation, {
              ...rule.inputOf(data),
              ...(as === undefined ? {} : { as }),
              ...(service === undefined ? {} : { service }),
              ...(token === undefined ? {} : { token }),
              ...(timeoutMs === undefined ? {} : { timeoutMs }),
              ...(observe === undefined ? {} : { observe }),
              signal,
            }),
            giveUpAt: request.giveUpAt,
          };
    const reply = await exchange(transport, next).catch(notYet);
    if (reply === null) continue;
    data = reply.data;
    if (rule === 'again' ? reply.status !== 202 : rule.isFinal(data)) return { done: true, data };
  }
}

/** Returns null for a failure that is not final: the request is stored, and a later read shows its result. @throws any other error */
function notYet(error: unknown): null {
  if (!(error instanceof ExamhallError) || error.kind === 'final') throw error;
  return null;
}
