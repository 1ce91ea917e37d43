import { addCredentials, chosenCredentials, type RouteFacts } from './credentials.ts';
import { type RequestSettings, TIMEOUT_MS } from './exchange.ts';
import { ROUTES, STREAM_ROUTES } from './generated.ts';
import type { OperationName } from './operation.ts';
import { SLOW_OPERATIONS } from './operation-rules.ts';

/** A request of a browser, as its gateway received it. */
export interface ForwardedRequest {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  /** Names in lower case. Only those that examhall reads from browsers pass, so that no browser can forge an identity. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: Uint8Array<ArrayBuffer> | string | null;
  /** Address of the browser. examhall counts failed logins by it if `TRUSTED_PROXIES` has the gateway. */
  readonly address?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface FoundOperation {
  readonly name: string;
  readonly route: RouteFacts;
  readonly pattern: RegExp;
  readonly isStream: boolean;
}

const PASSED = ['content-type', 'accept', 'user-agent', 'last-event-id', 'idempotency-key', 'x-device-token', 'prefer'];
/** A segment that is an id. `fetch` would resolve `.` and `..`, and so reach another route. */
const SEGMENT = '(?!\\.{1,2}(?:/|$))(?:[\\w.:@-]|%40|%3[Aa])+';
const OPERATIONS = [...operationsIn(ROUTES, false), ...operationsIn(STREAM_ROUTES, true)].sort(
  // A path without a parameter is found before `…/{id}`, which matches it too.
  (one, other) => parametersOf(one) - parametersOf(other),
);

/** Returns the operation of a method and a path, or null. */
export function operationAt(method: string, path: string): FoundOperation | null {
  const [bare = ''] = path.split('?', 1);
  return OPERATIONS.find(({ route, pattern }) => route.method === method && pattern.test(bare)) ?? null;
}

/**
 * Sends a request of a browser once, with the credentials that its operation reads, and returns the reply as it is. A path without an operation
 * gets 404 and is not sent. @throws an error of `fetch` without a reply
 */
export async function forward(settings: RequestSettings, request: ForwardedRequest): Promise<Response> {
  const { method, path, body = null, address, signal } = request;
  const found = operationAt(method, path);
  if (found === null) return refusal(404, 'ROUTE_NOT_FOUND', 'no operation has this method and this path');
  const { name, route, isStream } = found;
  const headers = new Headers();
  for (const header of PASSED) {
    const value = request.headers[header];
    if (value !== undefined) headers.set(header, String(value));
  }
  // The X-Request-Id of a gateway is the key of logs and traces, which a browser must not choose.
  const chosen = request.headers['x-request-id'];
  if (chosen !== undefined) headers.set('x-client-request-id', String(chosen));
  if (address !== undefined) headers.set('x-forwarded-for', address);
  // examhall itself refuses a person without the organization that the operation requires.
  const lenient = route.organization === 'required' ? { ...route, organization: 'optional' as const } : route;
  addCredentials(headers, lenient, chosenCredentials(route, {}, settings.credentials), settings.gatewayToken);
  const limitMs = SLOW_OPERATIONS[name as OperationName] ?? settings.timeoutMs ?? TIMEOUT_MS;
  const signals = [...(signal === undefined ? [] : [signal]), ...(isStream ? [] : [AbortSignal.timeout(limitMs)])];
  const url = `${settings.baseUrl.replace(/\/+$/, '')}${path}`;
  const init = { method, headers, body, redirect: 'manual' as const, signal: AbortSignal.any(signals) };
  return settings.transport.fetch(url, init);
}

/** Returns a reply in the form of examhall's own failures. */
export function refusal(status: number, code: string, message: string): Response {
  return Response.json({ success: false, code, message }, { status });
}

function operationsIn(routes: Readonly<Record<string, RouteFacts>>, isStream: boolean): FoundOperation[] {
  return Object.entries(routes).map(([name, route]) => {
    const pattern = new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, SEGMENT)}$`);
    return { name, route, pattern, isStream };
  });
}

function parametersOf({ route }: FoundOperation): number {
  return route.path.split('{').length;
}
