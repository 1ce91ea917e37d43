import { setTimeout as delay } from 'node:timers/promises';
import { answerJson, listenLocally } from '#scripts/sandbox/local-server.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import { type Arrivals, answerControl, type Controlled, jsonOf, openArrivals } from './control.ts';
import {
  intakeEnvironment,
  mailEnvironment,
  NEIGHBOUR_NAMES,
  type NeighbourName,
  STAND_IN_WEBHOOK_SECRET,
  standInEnvironment,
  tokensSentBy,
} from './environment.ts';
import { type Failure, type FailureSwitch, failureSwitch } from './failure.ts';
import { ownerStandIns } from './ledger.ts';
import { openMailStandIn } from './mail.ts';
import { modelsStandIn } from './models.ts';
import { notificationStandIn } from './notification.ts';
import { profileStandIn } from './profile.ts';
import { bankQuestion, bankStandIn } from './question-bank.ts';
import { analyticsStandIn, auditStandIn, webhookStandIn } from './receivers.ts';
import { answerOf, type NeighbourCall, type Reply, type StandIn } from './stand-in.ts';

/** Stand-ins for all services that examhall calls, behind one port of the loopback address. */
export type StandIns = Awaited<ReturnType<typeof openStandIns>>;

/** A call that has ended: its neighbour, the status of its reply, null for a closed connection, and what it was about. */
export interface HeardCall {
  name: NeighbourName | 'mail';
  status: number | null;
  about: string;
}

export interface StandInOptions {
  /** Default: a free port. */
  port?: number;
  /** Environment of the callers, whose tokens are required. */
  env: NodeJS.ProcessEnv;
  /** First questions of the question bank. */
  questions?: readonly StartQuestion[];
  /** First balance of an organization, in credits. */
  balance?: number;
  /** Port of the mail server; 0: any free one. Absent: none is open. */
  mailPort?: number;
  heard?: (call: HeardCall) => void;
}

/** One call that arrived, as the control interface shows it. */
interface KeptCall {
  at: string;
  method: string;
  path: string;
  sender: string | null;
  body: unknown;
  /** Status of the reply; null while it is awaited, and for a closed connection. */
  status: number | null;
}

/** A stand-in with its failure and its calls. */
interface Kept extends Controlled {
  name: NeighbourName;
  standIn: StandIn;
  failure: FailureSwitch;
  arrivals: Arrivals<KeptCall>;
}

const BALANCE = 10_000;

/** Opens all stand-ins. Each has a prefix of its own: `/profile`, `/wallet`, … */
export async function openStandIns(options: StandInOptions) {
  const { port = 0, env, questions = [], balance = BALANCE, mailPort, heard = () => undefined } = options;
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
      if (found === undefined) {
        const neighbours = new Map<string, Controlled>(mail === null ? kept : [...kept, ['mail', mail]]);
        return answerJson(response, answerControl({ env: environment(), neighbours }, received, [first, ...rest]));
      }
      const call: NeighbourCall = { ...received, path: `/${rest.join('/')}`, body: jsonOf(received) };
      const reply = await answerAt(found, call);
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

  function environment(): Record<string, string> {
    const { url } = server;
    const mailed = mail === null ? {} : mailEnvironment(url, mail.port);
    return { ...standInEnvironment(url), ...mailed, ...intakeEnvironment(url) };
  }

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

  return {
    ...server,
    ...standIns,
    /** Returns the state of usage service and wallet for an organization. */
    ledgerOf,
    /** null: no mail server is open. */
    mail,
    /** Environment that points a cluster at them, the intake of notices included. */
    env: environment(),
    urlOf: (name: NeighbourName) => `${server.url}/${name}`,
    /** Begins a failure of a neighbour, or ends it (null). */
    fail: (name: NeighbourName, failure: Failure | null) => kept.get(name)?.failure.set(failure),
    async close() {
      await mail?.close();
      await server.close();
    },
  };
}

function keep(name: NeighbourName, url: string, standIn: StandIn): Kept {
  const failure = failureSwitch();
  const arrivals = openArrivals<KeptCall>();
  return {
    name,
    url,
    standIn,
    failure,
    arrivals,
    facts: standIn.facts,
    learn: (facts) => standIn.learn?.(facts),
    details: () => ({ newestCalls: arrivals.newest, state: standIn.state() }),
    forget() {
      failure.set(null);
      arrivals.forget();
      standIn.forget();
    },
  };
}

function keptCall({ method, path, headers, body = null }: NeighbourCall): KeptCall {
  const sender = headers['x-internal-service'];
  return {
    at: new Date().toISOString(),
    method,
    path,
    sender: typeof sender === 'string' ? sender : null,
    body,
    status: null,
  };
}
