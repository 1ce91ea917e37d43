/**
 * The request from which work comes. Every command carries it, and so do the commands that it causes and the calls to neighbours. It
 * serves operators alone: no rule, key or replay depends on it.
 */
export interface Cause {
  /** Id of the request, as its access line has it. Absent in work of a sweep. */
  requestId?: string;
  /** Position in a trace (W3C Trace Context): `00-{traceId}-{spanId}-{flags}`. Absent if no caller and no SDK traces. */
  traceparent?: string;
  /** Facts of tracing systems that belong to `traceparent`. */
  tracestate?: string;
}

/** Ids are not all zeros, and version ff does not exist. A later version may have more fields, which are not read. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const SAMPLED = 1;

/** Returns a `traceparent` header in the form of version 00, or undefined if it is absent or malformed. */
export function traceparentOf(header: unknown): string | undefined {
  if (typeof header !== 'string') return undefined;
  const [whole, version, traceId, spanId, flags = '', more] = TRACEPARENT.exec(header.trim()) ?? [];
  if (whole === undefined) return undefined;
  if (version === '00') return more === undefined ? whole : undefined;
  // Only this flag is known to have the same meaning in a later version.
  return `00-${traceId}-${spanId}-0${Number.parseInt(flags, 16) & SAMPLED}`;
}

/** Length up to which a `tracestate` is stored. Every participant must pass on that much. */
const MAX_TRACESTATE = 512;
const MAX_MEMBERS = 32;
const KEY = /^(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})$/;
const VALUE = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** Returns a `tracestate` header without its empty members, or undefined if it is absent, malformed or longer than 512 characters. */
export function tracestateOf(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.length > MAX_TRACESTATE) return undefined;
  const members = header
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '');
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf('='))));
  const areValid = members.every((member) => {
    const at = member.indexOf('=');
    return at > 0 && KEY.test(member.slice(0, at)) && VALUE.test(member.slice(at + 1));
  });
  const isList = members.length > 0 && members.length <= MAX_MEMBERS && keys.size === members.length;
  return isList && areValid ? members.join() : undefined;
}

/** Returns the cause that a request is: its id, and the place in the trace of its caller that these headers name. */
export function causeOfRequest(requestId: string, headers: Readonly<Record<string, unknown>>): Cause {
  const traceparent = traceparentOf(headers.traceparent);
  if (traceparent === undefined) return { requestId };
  const tracestate = tracestateOf(headers.tracestate);
  return tracestate === undefined ? { requestId, traceparent } : { requestId, traceparent, tracestate };
}

/** Returns the id of the trace to which the work belongs, or undefined if no trace is known. */
export function traceIdOf(cause: Cause | undefined): string | undefined {
  return cause?.traceparent?.slice(3, 35);
}
