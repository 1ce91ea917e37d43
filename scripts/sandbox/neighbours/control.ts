import type { ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { NEIGHBOUR_NAMES, type NeighbourName } from './environment.ts';
import { type Failure, type FailureSwitch, type ReadFailure, readFailure, readMailFailure } from './failure.ts';
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
 * - `DELETE /_control/NAME`: ends the failure, and deletes calls and facts.
 * - `GET`, `PUT`, `DELETE /_control/mail`: the same for the mail server, with its newest e-mails.
 */
export function answerControl({ env, mail, kept }: Place, call: ReceivedCall, path: readonly string[]): Reply {
  const [first = '', name = '', part = '', ...more] = path;
  if (first === '' && call.method === 'GET') return environmentText(env);
  if (first !== '_control' || more.length > 0) return unknownPlace(mail);
  if (name === '') {
    if (call.method !== 'GET') return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET is possible here');
    const neighbours = Object.fromEntries([...kept].map(([key, found]) => [key, overviewOf(found)]));
    return ok({ neighbours: mail === null ? neighbours : { ...neighbours, mail: mailOverview(mail) } });
  }
  if (name === 'mail' && mail !== null && part === '') return answerMail(mail, call);
  const found = kept.get(name);
  if (found === undefined) return unknownPlace(mail);
  if (part === 'facts' && call.method === 'PUT') return teach(found, jsonOf(call));
  if (part !== '') return unknownPlace(mail);
  switch (call.method) {
    case 'GET':
      return ok({ ...overviewOf(found), newestCalls: found.calls, state: found.standIn.state() });
    case 'PUT':
      return setFailure(found.failure, readFailure, jsonOf(call)) ?? ok(overviewOf(found));
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

function answerMail(mail: MailStandIn, call: ReceivedCall): Reply {
  switch (call.method) {
    case 'GET':
      return ok({ ...mailOverview(mail), mails: mail.mails });
    case 'PUT':
      return setFailure(mail.failure, readMailFailure, jsonOf(call)) ?? ok(mailOverview(mail));
    case 'DELETE':
      mail.forget();
      return ok({ ...mailOverview(mail), mails: mail.mails });
    default:
      return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET, PUT and DELETE are possible here');
  }
}

function mailOverview({ port, failure, answered }: MailStandIn) {
  const calls = Object.values(answered).reduce((sum, count) => sum + count, 0);
  return { url: `smtp://127.0.0.1:${port}`, failure: failure.shown(), calls, answered };
}

function overviewOf({ url, failure, count, calls }: Kept) {
  const answered: Record<string, number> = {};
  for (const { status } of calls) {
    const key = status === null ? 'none' : String(status);
    answered[key] = (answered[key] ?? 0) + 1;
  }
  return { url, failure: failure.shown(), calls: count, answered };
}

/** Begins a failure, or ends it. Returns the refusal of a value that is no failure. */
function setFailure<Own extends Failure>(
  failure: Pick<FailureSwitch<Own>, 'set'>,
  read: (value: unknown) => ReadFailure<Own>,
  value: unknown,
): Reply | undefined {
  const isReset = faultsOf(RESET, value).length === 0;
  const found = isReset ? { failure: null } : read(value);
  if ('faults' in found) return refusal(400, 'VALIDATION_FAILED', 'this is no failure', found.faults);
  failure.set(found.failure);
  return undefined;
}

function teach({ name, standIn }: Kept, value: unknown): Reply {
  const { facts } = standIn;
  if (facts === undefined) return refusal(404, 'ROUTE_NOT_FOUND', `${name} can be taught no facts`);
  const details = faultsOf(facts, value);
  if (details.length > 0) return refusal(400, 'VALIDATION_FAILED', 'the facts have faults', details);
  standIn.learn?.(value as never);
  return ok({ taught: name });
}

/** Returns the environment as lines that a shell and a `.env` file understand. */
function environmentText(env: Place['env']): Reply {
  const body = Object.entries(env)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
  return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body };
}

function unknownPlace(mail: MailStandIn | null): Reply {
  const names = [...NEIGHBOUR_NAMES, ...(mail === null ? [] : ['mail'])].join(', ');
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
