import type { ServerResponse } from 'node:http';
import { answerJson, openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import { newLedger } from '#scripts/sandbox/neighbours/owners.ts';
import { isJsonObject, membersOf } from '#shared/kernel/json.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { openOwners } from './fake-owners.ts';

export interface NeighbourCall extends ReceivedCall {
  /** The parsed JSON body; null without one. */
  body: Record<string, unknown> | null;
}

interface Answer {
  status?: number;
  body?: unknown;
  headers?: Record<string, string>;
}

export type Neighbours = Awaited<ReturnType<typeof openNeighbours>>;

/** Secret with which the webhook channel signs in tests: `whsec_` and the base64 of 32 bytes. */
export const WEBHOOK_SECRET = `whsec_${Buffer.from('webhook-secret-of-32-test-bytes!').toString('base64')}`;

/** Contact that the profile service returns for every user. */
export const CONTACT = { email: 'student-1@school.example', name: 'Nguyễn An', locale: 'vi' } as const;

/**
 * Opens notification, profile, analytics, audit and usage service, wallet, question bank and a webhook receiver as one real HTTP server,
 * which records the calls.
 */
export async function openNeighbours(t: Teardown) {
  const url = await openReceiver(t, serve);
  // Environments that name this server: as every neighbour, as the receiver of the webhook channel, as audit service, and as usage service
  // and wallet with the settlement worker on.
  const env = { NOTIFICATION_SERVICE_URL: url, PROFILE_SERVICE_URL: url, ANALYTICS_SERVICE_URL: url };
  const webhookEnv = {
    NOTIFICATION_CHANNELS: 'webhook',
    NOTIFICATION_WEBHOOK_URL: `${url}/hook`,
    NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
  };
  const auditEnv = { AUDIT_SERVICE_URL: url };
  const ownersEnv = {
    USAGE_SERVICE_URL: url,
    WALLET_SERVICE_URL: url,
    AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1',
  };
  const ledger = newLedger(1_000_000, Number.POSITIVE_INFINITY);
  const owners = openOwners(ledger);
  const neighbours = {
    url,
    calls: [] as NeighbourCall[],
    /** Number of times that each notice, delivery or event of a subscription arrived, by its id. */
    notices: new Map<string, number>(),
    /** Number of times that each event for analytics or audit arrived, by source event id. */
    analytics: new Map<string, number>(),
    parents: ['parent-1'],
    ledger,
    /** If set, returns the answer to each call, by default with status 200, or undefined for the default answer. */
    answer: null as ((call: NeighbourCall) => Answer | undefined) | null,
    env,
    webhookEnv,
    auditEnv,
    ownersEnv,
    allEnv: { ...env, ...webhookEnv, ...auditEnv, ...ownersEnv },
  };

  async function serve(received: ReceivedCall, response: ServerResponse): Promise<void> {
    const call = { ...received, body: received.json() as NeighbourCall['body'] };
    neighbours.calls.push(call);
    const { questionIds } = membersOf(call.body);
    if (Array.isArray(questionIds)) owners.learn({ questions: questionIds.map(bankQuestion) });
    const answer = neighbours.answer?.(call) ?? (await owners.answer(call)) ?? usual(call);
    answerJson(response, { status: 200, ...answer });
  }

  function usual(call: NeighbourCall): Answer {
    if (call.path.endsWith('/contacts')) return { status: 200, body: { data: CONTACT } };
    if (call.method === 'GET') return { status: 200, body: { data: { parentIds: neighbours.parents } } };
    const taken = call.path === '/v1/events' ? neighbours.analytics : neighbours.notices;
    // A batch of the auth service names its event in a member.
    const event = isJsonObject(call.body?.event) ? call.body.event : call.body;
    const id = String(event?.sourceEventId ?? event?.deliveryJobId ?? event?.id);
    taken.set(id, (taken.get(id) ?? 0) + 1);
    return { status: 201, body: { success: true } };
  }

  return neighbours;
}

export function bankQuestion(id: string) {
  return { id, content: `<p>Nội dung ${id}</p>`, contentText: `Nội dung ${id}`, options: [{ id: 'A', content: '1' }] };
}
