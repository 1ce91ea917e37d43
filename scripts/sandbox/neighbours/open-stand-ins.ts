import { setTimeout as delay } from 'node:timers/promises';
import { answerJson, listenLocally } from '#scripts/sandbox/local-server.ts';
import type { StartQuestion } from '../../../clients/typescript/src/index.ts';
import { answerControl, jsonOf, type Kept, type KeptCall } from './control.ts';
import {
  intakeEnvironment,
  mailEnvironment,
  NEIGHBOUR_NAMES,
  type NeighbourName,
  STAND_IN_WEBHOOK_SECRET,
  standInEnvironment,
  tokensSentBy,
} from './environment.ts';
import { analyticsStandIn, auditStandIn } from './events.ts';
import { type Effect, type Failure, failureSwitch } from './failure.ts';
import { ownerStandIns } from './ledger.ts';
import { type MailCall, openMailStandIn } from './mail.ts';
import { modelsStandIn } from './models.ts';
import { notificationStandIn } from './notification.ts';
import { profileStandIn } from './profile.ts';
import { bankQuestion, bankStandIn } from './question-bank.ts';
import { answerOf, type NeighbourCall, type Reply, type StandIn } from './stand-in.ts';
import { webhookStandIn } from './webhook.ts';

/** Stand-ins for all services that examhall calls, behind one port of the loopback address. */
export type StandIns = Awaited<ReturnType<typeof openStandIns>>;

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
  /** Receives each e-mail that was taken, and each command that a failure met. */
  heardMail?: (call: MailCall) => void;
  /** Receives each call after its reply. */
  heard?: (name: NeighbourName, call: KeptCall) => void;
}

const MAX_BODY_BYTES = 16 * 1024 * 1024;
const BALANCE = 10_000;
/** Calls of one neighbour that the control interface shows. */
const MAX_KEPT_CALLS = 200;

/** Opens all stand-ins. Each has a prefix of its own: `/profile`, `/wallet`, … */
export async function openStandIns(options: StandInOptions) {
  const tokenOf = tokensSentBy(options.env);
  const owners = ownerStandIns(options.balance ?? BALANCE);
  const profile = profileStandIn();
  const analytics = analyticsStandIn();
  const audit = auditStandIn();
  const questionBank = bankStandIn((options.questions ?? []).map(bankQuestion));
  const notification = notificationStandIn();
  const webhook = webhookStandIn(STAND_IN_WEBHOOK_SECRET);
  const standIns: Record<NeighbourName, StandIn> = {
    profile,
    analytics,
    audit,
    'question-bank': questionBank,
    usage: owners.usage,
    wallet: owners.wallet,
    notification,
    models: modelsStandIn(),
    webhook,
  };
  const kept = new Map<string, Kept>();
  const { mailPort, heardMail } = options;
  const heard = heardMail === undefined ? {} : { heard: heardMail };
  const mail = mailPort === undefined ? null : await openMailStandIn({ port: mailPort, ...heard });

  const opening = listenLocally(
    async (received, response) => {
      const [target = ''] = received.path.split('?');
      const [, first = '', ...rest] = target.split('/');
      const found = kept.get(first);
      if (found === undefined) {
        const reply = answerControl({ env: environment(), mail, kept }, received, [first, ...rest]);
        return answerJson(response, reply);
      }
      const call: NeighbourCall = { ...received, path: `/${rest.join('/')}`, body: jsonOf(received) };
      const entry = keep(found, call);
      const reply = await answerWith(found, call, found.failure.next(call.path));
      entry.status = reply?.status ?? null;
      options.heard?.(found.name, entry);
      if (reply === null) response.socket?.destroy();
      else answerJson(response, reply);
    },
    {
      ...(options.port === undefined ? {} : { port: options.port }),
      maxBodyBytes: MAX_BODY_BYTES,
      survivesErrors: true,
    },
  );
  const server = await opening.catch(async (error: unknown) => {
    await mail?.close();
    throw error;
  });
  for (const name of NEIGHBOUR_NAMES) {
    const [url, standIn] = [`${server.url}/${name}`, standIns[name]];
    kept.set(name, { name, url, standIn, failure: failureSwitch(), calls: [], count: 0 });
  }

  function environment(): Record<string, string> {
    const { url } = server;
    const mailed = mail === null ? {} : mailEnvironment(url, mail.port);
    return { ...standInEnvironment(url), ...mailed, ...intakeEnvironment(url) };
  }

  /** Returns the reply of a call after its effect; null: the connection is closed. */
  async function answerWith(found: Kept, call: NeighbourCall, effect: Effect): Promise<Reply | null> {
    const { delayMs, performs, reply } = effect;
    if (delayMs > 0) await delay(delayMs, undefined, { ref: false });
    const real = performs ? await answerOf(found.standIn, call, (sender) => tokenOf(found.name, sender)) : null;
    if (reply === 'real') return real;
    if (real !== null) found.standIn.replyLost?.(call, real);
    return reply === 'none' ? null : reply;
  }

  function keptOf(name: NeighbourName): Kept {
    const found = kept.get(name);
    if (found === undefined) throw new Error(`no stand-in is named ${name}`);
    return found;
  }

  return {
    ...server,
    /** Environment that points a cluster at them, the intake of notices included. */
    env: environment(),
    /** null: no mail server is open. */
    mail,
    profile,
    analytics,
    audit,
    questionBank,
    owners,
    notification,
    webhook,
    urlOf: (name: NeighbourName) => keptOf(name).url,
    /** Begins a failure of a neighbour, or ends it (null). */
    fail: (name: NeighbourName, failure: Failure | null) => keptOf(name).failure.set(failure),
    async close() {
      await mail?.close();
      await server.close();
    },
  };
}

function keep(found: Kept, { method, path, headers, body }: NeighbourCall): KeptCall {
  const sender = headers['x-internal-service'];
  const call: KeptCall = {
    at: new Date().toISOString(),
    method,
    path,
    sender: typeof sender === 'string' ? sender : null,
    body: body ?? null,
    status: null,
  };
  found.count += 1;
  found.calls.push(call);
  if (found.calls.length > MAX_KEPT_CALLS) found.calls.shift();
  return call;
}
