import type { ReceivedCall } from '#scripts/http/local-server.ts';
import { NEIGHBOUR_NAMES, type NeighbourName } from './environment.ts';
import { type FailureSwitch, readFailure } from './failure.ts';
import type { MailStandIn } from './mail.ts';
import { closed, faultsOf, ok, type Reply, refusal, type StandIn } from './stand-in.ts';

/** One call that arrived, as the control interface shows it. */
export interface KeptCall {
  at: string;
  method: string;
  path: string;
  sender: string | null;
  body: unknown;
  /** Status of the reply; null while it is awaited, and for a closed connection. */
  status: number | null;
}

/** A stand-in with its failure and its calls. */
export interface Kept {
  name: NeighbourName;
  url: string;
  standIn: StandIn;
  failure: FailureSwitch;
  /** The newest calls, oldest first. */
  calls: KeptCall[];
  /** Number of all calls. */
  count: number;
}

interface Place {
  /** Variables that point a cluster at the stand-ins. */
  env: Readonly<Record<string, string>>;
  /** null: no mail server is open. */
  mail: MailStandIn | null;
  kept: ReadonlyMap<string, Kept>;
}

const RESET = closed({ reset: { const: true } });

/**
 * Answers a call that names no stand-in.
 *
 * - `GET /`: the environment, one variable a line.
 * - `GET /_control`: each stand-in with its failure and the number of its calls.
 * - `GET /_control/NAME`: its newest calls and everything that it stores.
 * - `PUT /_control/NAME`: begins a failure, or ends it with `{"reset": true}`.
 * - `PUT /_control/NAME/facts`: teaches it facts.
 * - `GET /_control/mail`, `DELETE`: the newest e-mails; deletes them.
 * - `DELETE /_control/NAME`: ends the failure, and deletes calls and facts.
 */
export function answerControl({ env, mail, kept }: Place, call: ReceivedCall, path: readonly string[]): Reply {
  const [first = '', name = '', part = '', ...more] = path;
  if (first === '' && call.method === 'GET') return environmentText(env);
  if (first !== '_control' || more.length > 0) return unknownPlace();
  if (name === '') {
    if (call.method !== 'GET') return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET is possible here');
    return ok({ neighbours: Object.fromEntries([...kept].map(([key, found]) => [key, overviewOf(found)])) });
  }
  if (name === 'mail' && mail !== null && part === '') return answerMail(mail, call.method);
  const found = kept.get(name);
  if (found === undefined) return unknownPlace();
  if (part === 'facts' && call.method === 'PUT') return teach(found, jsonOf(call));
  if (part !== '') return unknownPlace();
  switch (call.method) {
    case 'GET':
      return ok({ ...overviewOf(found), newestCalls: found.calls, state: found.standIn.state() });
    case 'PUT':
      return setFailure(found, jsonOf(call));
    case 'DELETE':
      found.failure.set(null);
      found.calls.length = 0;
      found.count = 0;
      found.standIn.forget();
      return ok(overviewOf(found));
    default:
      return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET, PUT and DELETE are possible here');
  }
}

function answerMail({ mails, forget }: MailStandIn, method: string): Reply {
  if (method !== 'GET' && method !== 'DELETE')
    return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET and DELETE are possible here');
  if (method === 'DELETE') forget();
  return ok({ mails });
}

function overviewOf({ url, failure, count, calls }: Kept) {
  const answered: Record<string, number> = {};
  for (const { status } of calls) {
    const key = status === null ? 'none' : String(status);
    answered[key] = (answered[key] ?? 0) + 1;
  }
  return { url, failure: failure.shown(), calls: count, answered };
}

function setFailure(found: Kept, value: unknown): Reply {
  if (faultsOf(RESET, value).length === 0) {
    found.failure.set(null);
    return ok(overviewOf(found));
  }
  const read = readFailure(value);
  if ('faults' in read) return refusal(400, 'VALIDATION_FAILED', 'this is no failure', read.faults);
  found.failure.set(read.failure);
  return ok(overviewOf(found));
}

function teach({ name, standIn }: Kept, value: unknown): Reply {
  const { facts } = standIn;
  if (facts === undefined) return refusal(404, 'ROUTE_NOT_FOUND', `${name} can be taught no facts`);
  const details = faultsOf(facts.shape, value);
  if (details.length > 0) return refusal(400, 'VALIDATION_FAILED', 'the facts have faults', details);
  facts.learn(value as never);
  return ok({ taught: name });
}

/** Returns the environment as lines that a shell and a `.env` file understand. */
function environmentText(env: Place['env']): Reply {
  const body = Object.entries(env)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
  return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body };
}

function unknownPlace(): Reply {
  const names = NEIGHBOUR_NAMES.join(', ');
  return refusal(404, 'NEIGHBOUR_NOT_FOUND', `the stand-ins are ${names}; /_control shows what they received`);
}

/** Returns the parsed body; undefined without one, or if it is not JSON. */
export function jsonOf(call: ReceivedCall): unknown {
  try {
    return call.json() ?? undefined;
  } catch {
    return undefined;
  }
}
