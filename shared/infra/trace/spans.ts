import type { Attributes, Context, Link, Span, SpanOptions } from '@opentelemetry/api';
import type { Cause } from '#shared/kernel/cause.ts';
import { currentCause, currentScope, inScope, type Scope } from './scope.ts';

type Api = typeof import('@opentelemetry/api');
type Kind = keyof Api['SpanKind'];

/** Where `@opentelemetry/api` stores what an SDK has registered, in whichever copy of the package. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');
const TRACER = 'examhall';

/** Null until `openTracing` has found an SDK, and for ever without one: every function below then does nothing. */
let api: Api | null = null;

/**
 * Turns spans on if the operator has registered an SDK (`node --import ./otel.mjs`). Loads the API only then, because loading takes a
 * megabyte and the time of some modules.
 */
export async function openTracing(): Promise<void> {
  const registered = (globalThis as Readonly<Record<symbol, unknown>>)[REGISTERED];
  const isThere = typeof registered === 'object' && registered !== null && 'trace' in registered;
  api = isThere ? await import('@opentelemetry/api') : null;
}

/** Notes on a span in progress. */
export interface SpanNotes {
  set(attributes: Attributes): void;
  /** Replaces the name, for a request whose route is found later. */
  rename(name: string): void;
  /** Marks the work as failed although it throws nothing. `type` is of low cardinality. */
  fail(type: string): void;
}

interface WantedSpan {
  kind: Kind;
  name: string;
  attributes: Attributes;
}

/** Work that notes its result on its span. The span is null without an SDK. */
type Work<Result> = (span: SpanNotes | null) => Promise<Result>;

/** Returns true if an SDK is registered. */
export function isTracing(): boolean {
  return api !== null;
}

/**
 * Runs `work` in a span whose parent is the work in progress. Everything that `work` starts has this span as its parent. An error that
 * `work` throws marks the span as failed and is thrown on. Without an SDK it only runs `work`.
 */
export function inSpan<Result>(wanted: WantedSpan, work: Work<Result>): Promise<Result> {
  return api === null ? work(null) : runInSpan(api, wanted, work);
}

async function runInSpan<Result>(otel: Api, wanted: WantedSpan, work: Work<Result>): Promise<Result> {
  const scope = currentScope();
  const span = startSpan(otel, wanted, parentOf(otel, scope));
  // Libraries that the operator has instrumented find their parent in the active context.
  const traced = otel.trace.setSpan(otel.context.active(), span);
  const inside = { ...scope, cause: causeIn(otel, span, scope?.cause), traced };
  try {
    return await otel.context.with(traced, () => inScope(inside, work, notesOf(otel, span)));
  } catch (error) {
    if (error instanceof Error) span.recordException({ name: error.name, message: error.name });
    failSpan(otel, span, error instanceof Error ? error.name : 'unknown');
    throw error;
  } finally {
    span.end();
  }
}

/** Posts of more commands than this are a batch. Each of its commands has a trace of its own, with a link to that of the post. */
export const MAX_IN_TRACE = 20;

/**
 * Returns the cause of a command that the work in progress posts, and notes the post in the trace. `posted` is the number of commands that
 * are posted together.
 */
export function causeOfPost({ _id, queue }: { _id: string; queue: string }, posted: number): Cause | undefined {
  const scope = currentScope();
  if (api === null || scope?.cause === undefined) return scope?.cause;
  const attributes = messageAttributes(queue, _id, 'create', 'send');
  const wanted: WantedSpan = { kind: 'PRODUCER', name: `create ${queue}`, attributes };
  const parent = parentOf(api, scope);
  const span = posted > MAX_IN_TRACE ? startLinked(api, wanted, parent) : startSpan(api, wanted, parent);
  span.end();
  return causeIn(api, span, scope.cause);
}

/** Starts a span in a trace of its own. An operator cannot read a trace of thousands of deliveries, and stores of traces cut it. */
function startLinked(otel: Api, wanted: WantedSpan, linked: Context): Span {
  const context = otel.trace.getSpanContext(linked);
  const links: Link[] = context === undefined ? [] : [{ context }];
  return startSpan(otel, wanted, otel.ROOT_CONTEXT, { root: true, links });
}

/** Names of the OpenTelemetry conventions for messaging. */
export function messageAttributes(queue: string, commandId: string, operation: string, type: string): Attributes {
  return {
    'messaging.system': 'examhall',
    'messaging.destination.name': queue,
    'messaging.message.id': commandId,
    'messaging.operation.name': operation,
    'messaging.operation.type': type,
  };
}

function startSpan(
  otel: Api,
  { kind, name, attributes }: WantedSpan,
  parent: Context,
  options: Pick<SpanOptions, 'root' | 'links'> = {},
): Span {
  return otel.trace.getTracer(TRACER).startSpan(name, { kind: otel.SpanKind[kind], attributes, ...options }, parent);
}

/** Returns the context of the span in progress, or else that of the caller or the sender, from its `traceparent`. */
function parentOf(otel: Api, { cause, traced }: Scope = { cause: undefined }): Context {
  if (traced !== undefined) return traced;
  const [, traceId, spanId, flags] = cause?.traceparent?.split('-') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return otel.ROOT_CONTEXT;
  const state = cause?.tracestate === undefined ? {} : { traceState: otel.createTraceState(cause.tracestate) };
  const traceFlags = Number.parseInt(flags, 16);
  return otel.trace.setSpanContext(otel.ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true, ...state });
}

/** Returns the cause of everything that is caused inside the span. */
function causeIn(otel: Api, span: Span, { requestId }: Cause = {}): Cause {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  const tracestate = traceState?.serialize() ?? '';
  return {
    ...(requestId === undefined ? {} : { requestId }),
    ...(otel.isValidTraceId(traceId) ? { traceparent: `00-${traceId}-${spanId}-${hex(traceFlags)}` } : {}),
    ...(tracestate === '' ? {} : { tracestate }),
  };
}

function hex(flags: number): string {
  return flags.toString(16).padStart(2, '0');
}

function notesOf(otel: Api, span: Span): SpanNotes {
  return {
    set: (attributes) => void span.setAttributes(attributes),
    rename: (name) => void span.updateName(name),
    fail: (type) => failSpan(otel, span, type),
  };
}

function failSpan(otel: Api, span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: otel.SpanStatusCode.ERROR });
}

/** A call to another service, while it is made. */
export interface SentCall {
  /** Headers by which the other service continues the trail: `x-request-id`, `traceparent`, `tracestate`. */
  headers(): Record<string, string>;
  answered(status: number): void;
}

/** Makes an HTTP call in a span of its own. Returns and throws as `call` does. */
export function inCall<Result>(
  { method, url }: { method: string; url: string },
  call: (sent: SentCall) => Promise<Result>,
): Promise<Result> {
  if (!isTracing()) return call(sentIn(null));
  // The path of a call may contain the id of a person, so no attribute has it.
  const attributes = { 'http.request.method': method, ...serverOf(url) };
  return inSpan({ kind: 'CLIENT', name: method, attributes }, (span) => call(sentIn(span)));
}

function sentIn(span: SpanNotes | null): SentCall {
  return { headers: () => headersOf(currentCause()), answered: (status) => noteStatus(span, status, 400) };
}

function serverOf(url: string): { 'server.address'?: string; 'server.port'?: number } {
  if (!URL.canParse(url)) return {};
  const { hostname, port, protocol } = new URL(url);
  const known = protocol === 'https:' ? 443 : 80;
  return { 'server.address': hostname, 'server.port': port === '' ? known : Number(port) };
}

/** Notes the status of a reply. Statuses from `failedFrom` on mark the span as failed. */
export function noteStatus(span: SpanNotes | null, status: number, failedFrom: number): void {
  span?.set({ 'http.response.status_code': status });
  if (status >= failedFrom) span?.fail(String(status));
}

function headersOf({ requestId, traceparent, tracestate }: Cause = {}): Record<string, string> {
  return {
    ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  };
}
