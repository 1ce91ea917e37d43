import { setTimeout as delay } from 'node:timers/promises';
import { answerJson, listenLocally, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import {
  intakeEnvironment,
  mailEnvironment,
  NEIGHBOUR_NAMES,
  type NeighbourName,
  STAND_IN_WEBHOOK_SECRET,
  standInEnvironment,
  tokensSentBy,
} from './environment.ts';
import { type Failure, type FailureSwitch, failureSwitch, SERVICE_FAILURE } from './failure.ts';
import { openMailStandIn } from './mail.ts';
import { modelsStandIn } from './models.ts';
import { notificationStandIn } from './notification.ts';
import { bankQuestion, bankStandIn, ownerStandIns } from './owners.ts';
import { profileStandIn } from './profile.ts';
import { analyticsStandIn, auditStandIn, webhookStandIn } from './receivers.ts';
import {
  type Arrivals,
  answerOf,
  faultsOf,
  type NeighbourCall,
  ok,
  openArrivals,
  type Reply,
  refusal,
  type StandIn,
} from './stand-in.ts';

/** Stand-ins for all services that examhall calls, behind one port of the loopback address. */
export type StandIns = Awaited<ReturnType<typeof openStandIns>>;

export interface StandInOptions {
  /** Default: a free port. */
  port?: number;
  env: NodeJS.ProcessEnv;
  /** First questions of the question bank. */
  questions?: readonly StartQuestion[];
  /** First balance of an organization, in credits. */
  balance?: number;
  /** Port of the mail server; 0: any free one. Absent: none is open. */
  mailPort?: number;
  /** Receives each call that has ended: its neighbour, the status of its reply, null for a closed connection, and what it was about. */
  heard?: (call: { name: NeighbourName | 'mail'; status: number | null; about: string }) => void;
}

/** A stand-in as the control interface shows and changes it. */
interface Controlled extends Pick<StandIn, 'facts' | 'learn' | 'forget'> {
  url: string;
  failure: Pick<FailureSwitch, 'read' | 'shown'>;
  arrivals: Pick<Arrivals<unknown>, 'overview'>;
  /** Returns what arrived and what it stores, as JSON. */
  details(): object;
}

/** A service with its failure and its calls. */
type Kept = ReturnType<typeof keep>;

/** Opens all stand-ins. Each has a prefix of its own: `/profile`, `/wallet`, … */
export async function openStandIns(options: StandInOptions) {
  const { port = 0, env, questions = [], balance = 10_000, mailPort, heard = () => undefined } = options;
  const tokenOf = tokensSentBy(env);
  const { usage, wallet, ledgerOf } = ownerStandIns(balance);
  const standIns = {
    profile: profileStandIn(),
    analytics: analyticsStandIn(),
    audit: auditStandIn(),
    'question-bank': bankStandIn(questions.map(bankQuestion)),
    usage,
    wallet,
    notification: notificationStandIn(),
    models: modelsStandIn(),
    webhook: webhookStandIn(STAND_IN_WEBHOOK_SECRET),
  } satisfies Record<NeighbourName, StandIn>;
  const kept = new Map<string, Kept>();
  const mail =
    mailPort === undefined
      ? null
      : await openMailStandIn({ port: mailPort, heard: (call) => heard({ name: 'mail', ...call }) });

  const opening = listenLocally(
    async (received, response) => {
      const [target = ''] = received.path.split('?');
      const [, first = '', ...rest] = target.split('/');
      const found = kept.get(first);
      const call: NeighbourCall = { ...received, path: `/${rest.join('/')}`, body: jsonOf(received) };
      const reply = found === undefined ? control(call, [first, ...rest]) : await answerAt(found, call);
      if (reply === null) response.socket?.destroy();
      else answerJson(response, reply);
    },
    { port, survivesErrors: true },
  );
  const server = await opening.catch(async (error: unknown) => {
    await mail?.close();
    throw error;
  });
  for (const name of NEIGHBOUR_NAMES) kept.set(name, keep(name, `${server.url}/${name}`, standIns[name]));
  const controlled = new Map<string, Controlled>(mail === null ? kept : [...kept, ['mail', mail]]);
  const environment: Record<string, string> = {
    ...standInEnvironment(server.url),
    ...(mail === null ? {} : mailEnvironment(server.url, mail.port)),
    ...intakeEnvironment(server.url),
  };

  /** Returns the reply of a call after its effect; null: the connection is closed. */
  async function answerAt({ name, standIn, failure, arrivals }: Kept, call: NeighbourCall): Promise<Reply | null> {
    const { method, path } = call;
    const arrived = keptCall(call);
    arrivals.keep(arrived);
    const { delayMs, performs, reply: wanted } = failure.next(path);
    if (delayMs > 0) await delay(delayMs, undefined, { ref: false });

    const real = performs ? await answerOf(standIn, call, (sender) => tokenOf(name, sender)) : null;
    if (wanted !== 'real' && real !== null) standIn.replyLost?.(call, real);
    const reply = wanted === 'real' ? real : wanted === 'none' ? null : wanted;

    arrived.status = reply?.status ?? null;
    arrivals.count(arrived.status);
    heard({ name, status: arrived.status, about: `${method} ${path}` });
    return reply;
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
  function control({ method, body }: NeighbourCall, [first, name = '', part = '', ...more]: readonly string[]): Reply {
    if (first === '' && method === 'GET') {
      const lines = Object.entries(environment).map(([variable, value]) => `${variable}=${value}\n`);
      return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: lines.join('') };
    }
    if (first === '_control' && name === '') {
      if (method !== 'GET') return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET is possible here');
      return ok({ neighbours: Object.fromEntries([...controlled].map(([key, one]) => [key, overviewOf(one)])) });
    }
    const found = first === '_control' && more.length === 0 ? controlled.get(name) : undefined;
    if (found !== undefined && part === '') return controlOf(found, method, body);
    if (found !== undefined && part === 'facts' && method === 'PUT') return teach(name, found, body);
    const names = [...controlled.keys()].join(', ');
    return refusal(404, 'NEIGHBOUR_NOT_FOUND', `the stand-ins are ${names}; /_control shows what they received`);
  }

  return {
    ...server,
    ...standIns,
    /** Returns the state of usage service and wallet for an organization. */
    ledgerOf,
    /** null: no mail server is open. */
    mail,
    /** Environment that points a cluster at them, the intake of notices included. */
    env: environment,
    urlOf: (name: NeighbourName) => `${server.url}/${name}`,
    fail: (name: NeighbourName, failure: Failure | null) => kept.get(name)?.failure.set(failure),
    async close() {
      await mail?.close();
      await server.close();
    },
  };
}

/** Returns a call that arrived, as the control interface shows it. */
function keptCall({ method, path, headers, body = null }: NeighbourCall) {
  const sender = headers['x-internal-service']?.toString() ?? null;
  // The status is null while the reply is awaited, and for a closed connection.
  return { at: new Date().toISOString(), method, path, sender, body, status: null as number | null };
}

function keep(name: NeighbourName, url: string, standIn: StandIn) {
  const failure = failureSwitch<Failure>(SERVICE_FAILURE);
  const arrivals = openArrivals<ReturnType<typeof keptCall>>();
  return {
    ...standIn,
    name,
    url,
    standIn,
    failure,
    arrivals,
    details: () => ({ newestCalls: arrivals.newest, state: standIn.state() }),
    forget() {
      failure.set(null);
      arrivals.forget();
      standIn.forget();
    },
  };
}

function overviewOf({ url, failure, arrivals }: Controlled) {
  return { url, failure: failure.shown(), ...arrivals.overview() };
}

function controlOf(found: Controlled, method: string, body: unknown): Reply {
  if (method === 'PUT') {
    const faults = found.failure.read(body);
    return faults.length > 0 ? refusal(400, 'VALIDATION_FAILED', 'this is no failure', faults) : ok(overviewOf(found));
  }
  if (method === 'DELETE') found.forget();
  else if (method !== 'GET') return refusal(405, 'METHOD_NOT_ALLOWED', 'only GET, PUT and DELETE are possible here');
  return ok({ ...overviewOf(found), ...found.details() });
}

function teach(name: string, { facts, learn }: Controlled, value: unknown): Reply {
  if (facts === undefined) return refusal(404, 'ROUTE_NOT_FOUND', `${name} can be taught no facts`);
  const details = faultsOf(facts, value);
  if (details.length > 0) return refusal(400, 'VALIDATION_FAILED', 'the facts have faults', details);
  learn?.(value as never);
  return ok({ taught: name });
}

/** Returns the parsed body; undefined without one, or if it is not JSON. */
function jsonOf(call: ReceivedCall): unknown {
  try {
    return call.json() ?? undefined;
  } catch {
    return undefined;
  }
}
