import { setTimeout as delay } from 'node:timers/promises';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { callHttp } from '#testing/clients/call.ts';
import { openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { type Cluster, startCluster, TOKENS, WORKERS } from '#testing/processes/cluster.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { type BodyOperation, bodyOperations, type OpenApiDocument, type Place } from './places.ts';
import { from, PREPARED } from './prepared-calls.ts';

export type Hall = Awaited<ReturnType<typeof openHall>>;

const IDLE_WITHIN_MS = 120_000;
const POLL_MS = 10;

/**
 * Starts a front door, every worker and the other services that they call in this process: the processor time of its thread is theirs.
 * `env` names the stores, unless they are those of the runner. `delivers`: each notification is delivered by webhook and e-mail; a list of
 * thousands would take hours.
 */
export async function openHall(
  t: Teardown,
  { env = {}, delivers = false }: { env?: NodeJS.ProcessEnv; delivers?: boolean } = {},
) {
  const others = await openNeighbours(t);
  const mail = delivers ? await openMailReceiver(t) : null;
  const cluster = await startCluster(t, {
    inside: true,
    workers: WORKERS,
    env: {
      AI_CLASSIFIER_PROVIDER: 'mock',
      AI_CLASSIFIER_WORKER_ENABLED: '1',
      AI_GENERATION_USAGE_WALLET_ENABLED: '1',
      QUESTION_BANK_SERVICE_URL: others.url,
      ...others.ownersEnv,
      ...others.auditEnv,
      ...(mail === null ? {} : { ...others.webhookEnv, ...mail.env, NOTIFICATION_CHANNELS: 'webhook,email' }),
      TRUSTED_PROXIES: '127.0.0.1',
      ...env,
    },
  });
  const { url } = cluster.door();
  const document = (await callHttp(url, 'GET', '/openapi.json')).json as OpenApiDocument;
  const schemes = document.components.securitySchemes;
  return {
    url,
    operations: bodyOperations(document),
    idle: () => idle(cluster),
    /**
     * Makes the objects that a call needs, and returns all of it but the filling of its body. `n` differs between calls. `afterwards` makes the
     * next calls of this caller, after which a worker reads what was stored.
     */
    async prepare({ id, path, security, example }: BodyOperation, place: Place, n: number) {
      const renewed = JSON.parse(JSON.stringify(example).replaceAll(OF_ITS_RUN, String(n)));
      const prepared = await PREPARED[id]?.({ url, n, place: place.name, example: renewed });
      const { params = {}, headers, body = renewed as unknown, afterwards } = prepared ?? {};
      const proofs = Object.entries(security).flatMap(([scheme, values]) => {
        const proof = proofOf(scheme, namedIn(example, values), n);
        return proof === undefined ? [] : [[schemes[scheme]?.name ?? 'Authorization', proof]];
      });
      return {
        target: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => params[name] ?? `made-${n}`),
        headers: { ...from(n), 'Idempotency-Key': `key-${n}`, ...Object.fromEntries(proofs), ...headers },
        body,
        afterwards,
      };
    },
  };
}

/** Number that the recorded examples have in every id and key of their run. */
const OF_ITS_RUN = '20260';

/** Returns the value that the example names, so that its sender is its author; otherwise the first. */
function namedIn(example: unknown, values: readonly string[]): string | undefined {
  const text = JSON.stringify(example);
  return values.find((value) => text.includes(`"${value}"`)) ?? values[0];
}

/** Returns the header of a scheme, for a role or service `value`; undefined if the cluster requires none, or if the call itself has it. */
function proofOf(scheme: string, value = 'STUDENT', n = 0): string | undefined {
  if (['gatewayToken', 'accessToken', 'refreshToken'].includes(scheme)) return undefined;
  if (scheme === 'receiverToken' || scheme === 'senderToken') return TOKENS.internal;
  if (scheme === 'operatorToken') return `Bearer ${TOKENS.ops}`;
  if (scheme === 'organizationId') return `org-${n}`;
  return scheme === 'userId' || scheme === 'actorId' ? `person-${n}` : value;
}

async function idle({ mongo }: Cluster): Promise<void> {
  for (const endsAt = performance.now() + IDLE_WITHIN_MS; ; await delay(POLL_MS)) {
    // The queue `upkeep` holds the recurring sweeps.
    const due = { status: 'PENDING', nextRunAt: { $lte: new Date() }, queue: { $ne: 'upkeep' } };
    const found = await Promise.all(MAILBOXES.map((name) => mongo.collection(name).findOne(due)));
    if (found.every((one) => one === null)) return;
    if (performance.now() > endsAt) throw new Error(`still due: ${JSON.stringify(found).slice(0, 1_000)}`);
  }
}
