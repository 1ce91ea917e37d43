import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { isJsonObject } from '#shared/kernel/json.ts';

/** The reply of a stand-in. A body that is a string is sent unchanged. */
export interface Reply {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A call of a neighbour. Its path begins after the prefix of the neighbour and has no query. */
export interface NeighbourCall extends ReceivedCall {
  /** The parsed body; undefined without one, or if it is not JSON. */
  body: unknown;
}

/** One route of a neighbour, and what a strict service requires there. */
export interface Route {
  method: 'GET' | 'POST';
  /** Its groups are ids of the path. */
  path: RegExp;
  /** Services that may call, each with its token; null: the route knows its callers by other means. */
  senders: readonly string[] | null;
  /** Headers that every call must have. */
  headers?: readonly string[];
  shape?: Schema;
  answer(call: NeighbourCall, ids: string[]): Reply | Promise<Reply>;
}

/** A stand-in for one service that examhall calls. It stores what the real service would store. It may be taught facts. */
export interface StandIn {
  routes: readonly Route[];
  /** Returns what it stores, as JSON. */
  state(): object;
  /** Shape of the facts; absent if it knows none. */
  facts?: Schema;
  learn?(facts: never): void;
  forget(): void;
  /** Is called after the stand-in performed a call whose reply, `reply`, is then lost on purpose. */
  replyLost?(call: NeighbourCall, reply: Reply): void;
}

export type Schema = Readonly<Record<string, unknown>>;

type Fields = Readonly<Record<string, Schema>>;

/** Returns the schema of an object with these fields and no other; those in `optional` may be absent. */
export function closed(required: Fields, optional: Fields = {}): Schema {
  const properties = { ...required, ...optional };
  return { type: 'object', additionalProperties: false, required: Object.keys(required), properties };
}

export function byId(value: Schema): Schema {
  return { type: 'object', additionalProperties: value };
}

export function fields(kind: Schema, ...names: string[]): Record<string, Schema> {
  return Object.fromEntries(names.map((name) => [name, kind]));
}

export const TEXT: Schema = { type: 'string', minLength: 1 };
export const TEXT_OR_NULL: Schema = { type: ['string', 'null'], minLength: 1 };
export const COUNT: Schema = { type: 'integer', minimum: 0 };
export const AMOUNT: Schema = { type: 'number', minimum: 0 };
export const NUMBER_OR_NULL: Schema = { type: ['number', 'null'] };
export const INSTANT: Schema = { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' };
export const INSTANT_OR_NULL: Schema = { ...INSTANT, type: ['string', 'null'] };

export interface Fault {
  path: string;
  message: string;
}

const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true });

/** Returns the faults of a value, an unknown field included; an empty list means that it is valid. */
export function faultsOf(shape: Schema, value: unknown): Fault[] {
  const validate = ajv.compile(shape);
  if (validate(value)) return [];
  return (validate.errors ?? []).map(({ instancePath, message = 'is invalid', params }) => {
    const unknown = params.additionalProperty === undefined ? '' : `: ${params.additionalProperty}`;
    return { path: instancePath, message: `${message}${unknown}` };
  });
}

/** Returns a success in the envelope that services share. */
export function ok(data: unknown, status = 200): Reply {
  return { status, body: { success: true, data, message: 'OK' } };
}

/** Returns a refusal in the envelope that services share. */
export function refusal(status: number, code: string, message: string, details?: readonly Fault[]): Reply {
  const more = details === undefined ? {} : { details };
  return { status, body: { success: false, code, message, ...more, requestId: 'stand-in' } };
}

/** Token that a sender must present; undefined: the caller sends none. */
type TokenOf = (sender: string) => string | undefined;

/** Answers a call as a strict service does: route, token, sender, headers and body are checked before it takes effect. */
export function answerOf(standIn: StandIn, call: NeighbourCall, tokenOf: TokenOf): Reply | Promise<Reply> {
  const matching = standIn.routes.filter(({ path }) => path.test(call.path));
  const route = matching.find(({ method }) => method === call.method);
  if (route === undefined) {
    return matching.length === 0
      ? refusal(404, 'ROUTE_NOT_FOUND', `this stand-in has no ${call.path}`)
      : refusal(405, 'METHOD_NOT_ALLOWED', `${call.path} has no ${call.method}`);
  }
  const refused = strangerAt(route, call, tokenOf) ?? misshapen(route, call);
  if (refused !== undefined) return refused;
  const ids = (route.path.exec(call.path) ?? []).slice(1);
  return route.answer(call, ids.map(decodeURIComponent));
}

function strangerAt({ senders, headers = [] }: Route, call: NeighbourCall, tokenOf: TokenOf): Reply | undefined {
  if (senders !== null) {
    const sender = String(call.headers['x-internal-service'] ?? '');
    if (sender === '') return refusal(401, 'INTERNAL_UNAUTHORIZED', '`X-Internal-Service` is missing');
    const token = tokenOf(sender) ?? '';
    if (token !== '' && call.headers['x-internal-token'] !== token)
      return refusal(401, 'INTERNAL_UNAUTHORIZED', '`X-Internal-Token` is missing or not the token of this sender');
    if (!senders.includes(sender)) return refusal(403, 'FORBIDDEN', `${sender} may not call this route`);
  }
  const missing = headers.filter((name) => String(call.headers[name] ?? '').trim() === '');
  if (missing.length === 0) return undefined;
  const details = missing.map((name) => ({ path: '', message: `header ${name} is missing` }));
  return refusal(400, 'VALIDATION_FAILED', 'a header is missing', details);
}

function misshapen({ shape }: Route, call: NeighbourCall): Reply | undefined {
  if (shape === undefined) return undefined;
  const type = String(call.headers['content-type'] ?? '');
  if (!/^application\/json\b/i.test(type)) return refusal(415, 'UNSUPPORTED_MEDIA_TYPE', 'the body must be JSON');
  if (call.body === undefined) return refusal(400, 'INVALID_JSON', 'the body is not JSON');
  const details = faultsOf(shape, call.body);
  return details.length === 0 ? undefined : refusal(400, 'VALIDATION_FAILED', 'the body has faults', details);
}

/** Entries beyond this number displace the oldest. */
const MAX_ENTRIES = 10_000;

export type Journal = ReturnType<typeof openJournal>;

/** Opens a journal of values that arrive, by their ids, of bounded size. `name` is that of its entries in the state. */
export function openJournal<Value extends object>(name: string) {
  const entries = new Map<string, Value & { times: number }>();
  const timesOf = (id: string) => entries.get(id)?.times ?? 0;
  return {
    timesOf,
    /** Stores an arrival; of equal ids, the first one. Returns how often this id has arrived. */
    note(id: string, value: Value): number {
      const times = timesOf(id) + 1;
      entries.set(id, { ...value, ...entries.get(id), times });
      const [oldest] = entries.keys();
      if (entries.size > MAX_ENTRIES && oldest !== undefined) entries.delete(oldest);
      return times;
    },
    state: (): object => ({ [name]: entries.size, byId: Object.fromEntries(entries) }),
    forget: () => entries.clear(),
  };
}

/** Returns a text member of a JSON object; the empty text if it has none. */
export function textIn(body: unknown, name: string): string {
  const value = isJsonObject(body) ? body[name] : undefined;
  return typeof value === 'string' ? value : '';
}

export type Arrivals<Arrival> = ReturnType<typeof openArrivals<Arrival>>;

const MAX_KEPT = 200;

/** Opens the list of the newest arrivals at a stand-in, oldest first, with the number of its calls by status. */
export function openArrivals<Arrival>() {
  const newest: Arrival[] = [];
  let [calls, answered]: [number, Record<string, number>] = [0, {}];
  return {
    newest: newest as readonly Arrival[],
    keep(arrival: Arrival): void {
      newest.push(arrival);
      if (newest.length > MAX_KEPT) newest.shift();
    },
    /** Counts a call that has ended; null: its connection was closed. */
    count(status: number | null): void {
      const key = status ?? 'none';
      calls += 1;
      answered[key] = (answered[key] ?? 0) + 1;
    },
    overview: () => ({ calls, answered }),
    forget() {
      newest.length = 0;
      [calls, answered] = [0, {}];
    },
  };
}
