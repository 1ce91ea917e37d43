import { Agent, type IncomingHttpHeaders } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { NoReply, send as sendCall } from '#scripts/http/call.ts';

/** The demo's replacement for the API gateway: adds the caller's identity and the tokens, and repeats calls without a usable reply. */
export interface Gateway {
  /** URL of the cluster. */
  url: string;
  /** Returns the headers that identify this caller to every service. */
  identityOf(caller: Caller): Record<string, string>;
  /**
   * Sends a call, at most eight times while there is no reply, a 503 or a 429 that is soon over. Returns the last reply.
   * @throws NoReply if the last sending had no reply either
   */
  send(call: GatewayCall): Promise<GatewayReply>;
  /** Number of sendings that repeated a call. */
  repeated(): number;
  close(): void;
}

export interface Caller {
  id: string;
  role: 'STUDENT' | 'TEACHER' | 'PARENT' | 'ADMIN';
  /** The organization for which the caller acts, for services that require one. */
  organizationId?: string;
}

export interface GatewayCall {
  /** Label of the call in the latency table. */
  name: string;
  method: 'GET' | 'PATCH' | 'POST';
  path: string;
  caller?: Caller;
  headers?: Record<string, string>;
  body?: unknown;
  /** Hangs up as soon as the request has been sent, so that its effect is unknown, then sends it again. */
  loseReply?: boolean;
  /** Longest silence of a reply in milliseconds; default 20 s. */
  timeoutMs?: number;
}

export interface GatewayReply {
  status: number;
  headers: IncomingHttpHeaders;
  /** Number of sendings. Each one before the last may have taken effect too. */
  sentTimes: number;
  /** The parsed envelope. */
  envelope(): Envelope;
}

export interface Envelope {
  success: boolean;
  data?: unknown;
  code?: string;
  message?: string;
}

const TIMEOUT_MS = 20_000;
const MAX_ATTEMPTS = 8;
const RETRY_MS = 200;
/** Longest `Retry-After` of a 429 for which a call waits, in seconds: that of an address that is slowed. */
const MAX_WAIT_SECONDS = 10;

/** Opens the gateway; at most `sockets` calls run at the same time. */
export function openGateway(deps: {
  url: string;
  gatewayToken: string | undefined;
  latencies: Latencies;
  sockets: number;
}): Gateway {
  const agent = new Agent({ keepAlive: true, maxSockets: deps.sockets });
  const gatewayProof: Record<string, string> =
    deps.gatewayToken === undefined ? {} : { 'x-gateway-token': deps.gatewayToken };
  let repeated = 0;

  async function send(call: GatewayCall): Promise<GatewayReply> {
    const lost = call.loseReply === true ? 1 : 0;
    if (lost > 0) await once(call, true).catch(() => undefined);
    repeated += lost;
    for (let attempt = 1; ; attempt++) {
      const began = performance.now();
      let waitMs = RETRY_MS * attempt;
      try {
        const reply = await once(call, false);
        deps.latencies.add(call.name, performance.now() - began);
        const seconds = Number(reply.headers['retry-after']);
        const isSoon = reply.status === 429 && seconds <= MAX_WAIT_SECONDS;
        if (isSoon) waitMs = seconds * 1_000;
        if ((reply.status !== 503 && !isSoon) || attempt === MAX_ATTEMPTS)
          return { ...reply, sentTimes: attempt + lost };
      } catch (error) {
        if (!(error instanceof NoReply) || attempt === MAX_ATTEMPTS) throw error;
      }
      repeated += 1;
      await delay(waitMs);
    }
  }

  async function once(call: GatewayCall, hangsUp: boolean): Promise<Omit<GatewayReply, 'sentTimes'>> {
    const { method, path, body, timeoutMs = TIMEOUT_MS } = call;
    const names = call.caller === undefined ? {} : namesOf(call.caller);
    const headers = { ...gatewayProof, ...names, ...call.headers };
    const answer = await sendCall(deps.url, { method, target: path, headers, body, agent, timeoutMs, hangsUp });
    return {
      status: answer.status,
      headers: answer.headers,
      envelope: () => JSON.parse(answer.body.toString('utf8')) as Envelope,
    };
  }

  /** Returns the identity headers of a caller. The attempt service reads other names than the remaining services. */
  function namesOf({ id, role, organizationId }: Caller): Record<string, string> {
    return {
      'x-user-id': id,
      'x-user-role': role,
      'x-actor-id': id,
      'x-actor-role': role,
      ...(organizationId === undefined ? {} : { 'x-organization-id': organizationId }),
    };
  }

  return {
    url: deps.url,
    identityOf: (caller) => ({ ...gatewayProof, ...namesOf(caller) }),
    send,
    repeated: () => repeated,
    close: () => agent.destroy(),
  };
}

/** Returns the data of a reply that has one of these statuses. @throws Error that names call, status and code, for another status */
export function dataOf<Data>(call: string, reply: GatewayReply, ...statuses: number[]): Data {
  const envelope = reply.envelope();
  if (statuses.includes(reply.status)) return envelope.data as Data;
  throw new Error(`${call} answered ${reply.status} ${envelope.code ?? ''} ${envelope.message ?? ''}`.trim());
}

/** Durations of calls in milliseconds, by the name of the call. */
export interface Latencies {
  add(name: string, ms: number): void;
  /** Names in the order in which they were first seen. */
  names(): string[];
  count(name: string): number;
  /** Returns the smallest duration that this share of the calls did not exceed; 0 without calls. */
  quantile(name: string, share: number): number;
}

/** Opens an empty table of durations. */
export function openLatencies(): Latencies {
  const values = new Map<string, number[]>();
  return {
    add(name, ms) {
      const list = values.get(name);
      if (list === undefined) values.set(name, [ms]);
      else list.push(ms);
    },
    names: () => [...values.keys()],
    count: (name) => values.get(name)?.length ?? 0,
    quantile(name, share) {
      const sorted = (values.get(name) ?? []).toSorted((a, b) => a - b);
      return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
    },
  };
}
