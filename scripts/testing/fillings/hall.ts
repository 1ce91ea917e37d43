import { setTimeout as delay } from 'node:timers/promises';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { type Cluster, startCluster, TOKENS, WORKERS } from '#testing/processes/cluster.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import { type BodyOperation, bodyOperations, type OpenApiDocument, type Place } from './places.ts';
import { from, PREPARED } from './prepared-calls.ts';

/** A cluster inside this process: the processor time of its thread is that of front door and workers. */
export interface Hall {
  url: string;
  operations: readonly BodyOperation[];
  /** Makes the objects that a call needs, and returns all of it but the filling of its body. `n` differs between calls. */
  prepare(operation: BodyOperation, place: Place, n: number): Promise<Prepared>;
  /** Waits until no command is due. */
  idle(): Promise<void>;
}

/** A call whose body is valid. */
interface Prepared {
  target: string;
  headers: Readonly<Record<string, string>>;
  body: unknown;
  /** The next calls of this caller, after which a worker reads what was stored. */
  afterwards?: (() => Promise<unknown>) | undefined;
}

interface HallOptions {
  /** Names the stores, unless they are those of the runner. */
  env?: NodeJS.ProcessEnv;
  /** True delivers each notification by webhook and e-mail; a list of thousands would take hours. */
  delivers?: boolean;
}

/** Longest wait for the workers. */
const IDLE_WITHIN_MS = 120_000;
const POLL_MS = 10;

/** Starts a front door, every worker and the other services that they call in this process. */
export async function openHall(t: Teardown, { env = {}, delivers = false }: HallOptions = {}): Promise<Hall> {
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
    async prepare(operation, place, n) {
      const {
        params = {},
        headers,
        body,
        afterwards,
      } = (await PREPARED[operation.id]?.({ url, n, place: place.name })) ?? {};
      const proofs = Object.entries(operation.security).flatMap(([scheme, values]) => {
        const proof = proofOf(scheme, namedIn(operation.example, values), n);
        return proof === undefined ? [] : [[schemes[scheme]?.name ?? 'Authorization', proof]];
      });
      return {
        target: operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => params[name] ?? `made-${n}`),
        headers: { ...from(n), 'Idempotency-Key': `key-${n}`, ...Object.fromEntries(proofs), ...headers },
        body: body ?? renewed(operation.example, n),
        afterwards,
      };
    },
  };
}

/** Returns the value that the example names, so that its sender is its author; otherwise the first. */
function namedIn(example: unknown, values: readonly string[]): string | undefined {
  const text = JSON.stringify(example);
  return values.find((value) => text.includes(`"${value}"`)) ?? values[0];
}

/**
 * Returns the header of a scheme; undefined if the cluster requires none, or if the call itself has it. `value`: the role or the service
 * that is required.
 */
function proofOf(scheme: string, value: string | undefined, n: number): string | undefined {
  switch (scheme) {
    case 'gatewayToken':
    case 'accessToken':
    case 'refreshToken':
      return undefined;
    case 'receiverToken':
    case 'senderToken':
      return TOKENS.internal;
    case 'operatorToken':
      return `Bearer ${TOKENS.ops}`;
    case 'organizationId':
      return `org-${n}`;
    case 'userId':
    case 'actorId':
      return `person-${n}`;
    default:
      return value ?? 'STUDENT';
  }
}

/** Number that the recorded examples have in every id and key of their run. */
const OF_ITS_RUN = '20260';

/** Returns an example with ids and keys that no other call has. */
function renewed(example: unknown, n: number): unknown {
  return JSON.parse(JSON.stringify(example).replaceAll(OF_ITS_RUN, String(n)));
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
