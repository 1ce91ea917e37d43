import type { Cause } from '#shared/kernel/cause.ts';
import { currentCause } from './scope.ts';
import { inSpan, isTracing, type SpanNotes } from './spans.ts';

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
