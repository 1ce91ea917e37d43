import type { ReceivedCall } from '#scripts/sandbox/local-server.ts';
import type { FailureSwitch } from './failure.ts';
import { faultsOf, ok, type Reply, refusal, type Schema } from './stand-in.ts';

/** A neighbour as the control interface shows and changes it. */
export interface Controlled {
  url: string;
  failure: Pick<FailureSwitch, 'read' | 'shown'>;
  arrivals: Pick<Arrivals<unknown>, 'overview'>;
  /** Returns what it stores, as JSON. */
  details(): object;
  /** Ends the failure, and deletes calls, facts and everything that it stores. */
  forget(): void;
  /** Shape of the facts that it can be taught. Without it, it knows no facts. */
  facts?: Schema | undefined;
  learn?(facts: never): void;
}

/** The newest arrivals at a neighbour, oldest first, and the number of its calls by status. */
export interface Arrivals<Arrival> {
  newest: readonly Arrival[];
  keep(arrival: Arrival): void;
  /** Counts a call that has ended; null: its connection was closed. */
  count(status: number | null): void;
  overview(): { calls: number; answered: Record<string, number> };
  forget(): void;
}

const MAX_KEPT = 200;

export function openArrivals<Arrival>(): Arrivals<Arrival> {
  const newest: Arrival[] = [];
  const answered = new Map<string, number>();
  return {
    newest,
    keep(arrival) {
      newest.push(arrival);
      if (newest.length > MAX_KEPT) newest.shift();
    },
    count(status) {
      const key = status === null ? 'none' : String(status);
      answered.set(key, (answered.get(key) ?? 0) + 1);
    },
    overview: () => ({
      calls: [...answered.values()].reduce((sum, count) => sum + count, 0),
      answered: Object.fromEntries(answered),
    }),
    forget() {
      newest.length = 0;
      answered.clear();
    },
  };
}

interface Place {
  /** Variables that point a cluster at the stand-ins. */
  env: Readonly<Record<string, string>>;
  neighbours: ReadonlyMap<string, Controlled>;
}

/**
 * Answers a call that names no stand-in.
 *
 * - `GET /`: the environment, one variable a line, as a shell and a `.env` file understand it.
 * - `GET /_control`: each neighbour with its failure and the number of its calls.
 * - `GET /_control/NAME`: its newest calls and everything that it stores.
 * - `PUT /_control/NAME`: begins a failure, or ends it with `{"reset": true}`.
 * - `PUT /_control/NAME/facts`: teaches it facts.
 * - `DELETE /_control/NAME`: ends the failure, and deletes calls and facts.
 */
export function answerControl({ env, neighbours }: Place, call: ReceivedCall, path: readonly string[]): Reply {
  const [first = '', name = '', part = '', ...more] = path;
  if (first === '' && call.method === 'GET') {
    const lines = Object.entries(env).map(([variable, value]) => `${variable}=${value}\n`);
    return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: lines.join('') };
  }
  if (first === '_control' && name === '') {
    if (call.method !== 'GET') return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET is possible here');
    return ok({ neighbours: Object.fromEntries([...neighbours].map(([key, found]) => [key, overviewOf(found)])) });
  }
  const found = first === '_control' && more.length === 0 ? neighbours.get(name) : undefined;
  if (found !== undefined && part === '') return answerAt(found, call);
  if (found !== undefined && part === 'facts' && call.method === 'PUT') return teach(name, found, jsonOf(call));
  const names = [...neighbours.keys()].join(', ');
  return refusal(404, 'NEIGHBOUR_NOT_FOUND', `the stand-ins are ${names}; /_control shows what they received`);
}

function answerAt(found: Controlled, call: ReceivedCall): Reply {
  switch (call.method) {
    case 'GET':
      return ok({ ...overviewOf(found), ...found.details() });
    case 'PUT': {
      const faults = found.failure.read(jsonOf(call));
      return faults.length > 0
        ? refusal(400, 'VALIDATION_FAILED', 'this is no failure', faults)
        : ok(overviewOf(found));
    }
    case 'DELETE':
      found.forget();
      return ok({ ...overviewOf(found), ...found.details() });
    default:
      return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET, PUT and DELETE are possible here');
  }
}

function overviewOf({ url, failure, arrivals }: Controlled) {
  return { url, failure: failure.shown(), ...arrivals.overview() };
}

function teach(name: string, found: Controlled, value: unknown): Reply {
  if (found.facts === undefined) return refusal(404, 'ROUTE_NOT_FOUND', `${name} can be taught no facts`);
  const details = faultsOf(found.facts, value);
  if (details.length > 0) return refusal(400, 'VALIDATION_FAILED', 'the facts have faults', details);
  found.learn?.(value as never);
  return ok({ taught: name });
}

/** Returns the parsed body; undefined without one, or if it is not JSON. */
export function jsonOf(call: ReceivedCall): unknown {
  try {
    return call.json() ?? undefined;
  } catch {
    return undefined;
  }
}
