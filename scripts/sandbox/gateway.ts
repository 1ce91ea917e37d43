import {
  type Client,
  createClient,
  ExamhallError,
  type Identity,
  type Outcome,
  type SentRequest,
  type Service,
} from '../../clients/typescript/src/index.ts';

/** The client of the sandbox, in the place of the API gateway and of the services that call examhall. */
export interface Gateway {
  /** URL of the cluster. */
  url: string;
  /**
   * Returns a client whose requests have this name in the table of durations. If it `losesReply`, it hangs up on its first request, whose effect
   * is then unknown, and sends it again.
   */
  client(name: string, options?: { losesReply: boolean }): Client;
  /** Returns the credentials of a service. */
  service(name: string): Service;
  /** Number of requests that had no reply, or one that asks to come again. */
  repeated(): number;
}

const TIMEOUT_MS = 20_000;
const TRIES = 8;
/** Longest `Retry-After` for which a call waits: that of an address that is slowed. */
const MAX_PAUSE_MS = 10_000;
/** Time limit of a call with the wait for its result: a whole year may submit at once. */
const DEADLINE_MS = 180_000;
/** Time after which a lost request is cut: its reply takes longer. */
const HANG_UP_MS = 4;

/** Opens the gateway with the tokens of a cluster that has this environment. */
export function openGateway(url: string, env: NodeJS.ProcessEnv, latencies?: Latencies): Gateway {
  const clients = new Map<string, Client>();
  const token = env.ATTEMPT_INTERNAL_SERVICE_TOKEN ?? env.INTERNAL_SERVICE_TOKEN ?? 'dev-internal-token';
  let repeated = 0;

  function open(name: string, options: { fetch?: typeof fetch }): Client {
    return createClient({
      baseUrl: url,
      gatewayToken: env.GATEWAY_TOKEN,
      tries: TRIES,
      timeoutMs: TIMEOUT_MS,
      deadlineMs: DEADLINE_MS,
      maxPauseMs: MAX_PAUSE_MS,
      observe({ status, ms }) {
        if (status === 0 || status === 429 || status === 503) repeated += 1;
        if (status !== 0) latencies?.add(name, ms);
      },
      ...options,
    });
  }

  return {
    url,
    client(name, { losesReply } = { losesReply: false }) {
      if (losesReply) return open(name, { fetch: losingFetch() });
      const client = clients.get(name) ?? open(name, {});
      clients.set(name, client);
      return client;
    },
    service: (name) => ({ name, token }),
    repeated: () => repeated,
  };
}

/** Returns a `fetch` that hangs up on its first request. The server may or may not have executed it. */
function losingFetch(): typeof fetch {
  let isFirst = true;
  return (input, init = {}) => {
    if (!isFirst) return fetch(input, init);
    isFirst = false;
    const left = AbortSignal.timeout(HANG_UP_MS);
    return fetch(input, { ...init, signal: init.signal ? AbortSignal.any([init.signal, left]) : left });
  };
}

/** Counts the requests of one call. If there is more than one, its result may be that of an earlier request. */
export function countRequests() {
  const statuses: number[] = [];
  return {
    observe: ({ status }: SentRequest) => void statuses.push(status),
    count: () => statuses.length,
    lastStatus: () => statuses.at(-1) ?? 0,
  };
}

/** Returns the failure of a call, or null if it succeeds. @throws any other error */
export async function refusalOf(call: Promise<unknown>): Promise<ExamhallError | null> {
  try {
    await call;
    return null;
  } catch (error) {
    if (error instanceof ExamhallError) return error;
    throw error;
  }
}

/** Returns the result of a call that may be answered 202. @throws Error if it did not come in time */
export function finalOf<Data>(name: string, outcome: Outcome<Data, unknown>): Data {
  if (outcome.done) return outcome.data;
  throw new Error(`${name} is still not done; do the workers of the cluster run?`);
}

/** Returns a student as caller. */
export function asStudent({ id }: { id: string }): Identity {
  return { id, role: 'STUDENT' };
}

/** Returns the names of the services that a cluster serves. @throws Error if none answers there */
export async function servicesOf({ url }: Gateway): Promise<ReadonlySet<string>> {
  const reply = await fetch(new URL('/v1', url), { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!reply.ok) throw new Error(`GET /v1 answered ${reply.status}`);
  const { data } = (await reply.json()) as { data: { services: string[] } };
  return new Set(data.services);
}

/** Durations of requests in milliseconds, by the name of their call, in the order in which the names were first seen. */
export interface Latencies {
  add(name: string, ms: number): void;
  /** Returns each name with its sorted durations. */
  sorted(): [name: string, durations: readonly number[]][];
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
    sorted: () => [...values].map(([name, list]) => [name, list.toSorted((a, b) => a - b)]),
  };
}
