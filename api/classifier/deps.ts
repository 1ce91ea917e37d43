import type { Streams } from '#api/http/live-stream.ts';
import type { WorkerAccess } from '#api/ring-and-wait.ts';
import type { Identity } from '#api/route.ts';
import type { Neighbour, Neighbours } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { FollowedModels } from '#infra/models/followed-models.ts';
import type { JobOwner } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { OwnerScope } from '#infra/neighbours/owner-call.ts';
import type { ChangeFeed } from '#infra/redis/change-feed.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { OpenJobLimits } from '#shared/classifier/job.ts';
import type { TrustedAddresses } from '#shared/classifier/provider/target.ts';
import type { Models } from '#shared/classifier/tasks/envelope.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

/** Dependencies of the AI classifier's front door, by its three parts. */
export interface ClassifierDeps {
  jobs: JobDeps;
  previews: PreviewDeps;
  providers: ProviderDeps;
}

/** Dependencies of the classification job routes. */
export interface JobDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  doorbells: Pick<Doorbells, 'ring'>;
  /** null = no bank is configured: prompts contain question ids only. */
  questionBank: Neighbour | null;
  /** Maximum attempts of the command that runs one round of a job. */
  jobAttempts: number;
  openJobLimits: OpenJobLimits;
  /** Publishes job changes and wakes the streams that follow a job. */
  jobChanges: Pick<ChangeFeed, 'notify' | 'listen' | 'isConnected'>;
  /** Aborts the calls of a cancelled job in every process. */
  models: Pick<FollowedModels, 'cancel'>;
  streams: Streams;
  log: Pick<Log, 'debug' | 'warn'>;
}

/** Dependencies of the preview routes. */
export interface PreviewDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  models: Models;
  neighbours: Pick<Neighbours, 'questionBank' | 'usage' | 'wallet'>;
  outboundTimeoutMs: number;
  /** true = generations are stored and paid for; false = previews are free and nothing is stored. */
  settles: boolean;
  /** Settles stored generations; null = this front door runs the worker's code in its own process. */
  settlementWorker: SettlementWorker | null;
  timing: GenerationTiming;
  log: Log;
}

/** Rings the settlement worker and waits for its reply. */
export interface SettlementWorker extends Pick<WorkerAccess, 'doorbells' | 'replies' | 'settledPoller'> {
  /** Longest wait for the settlement (ms); after it the request is answered with AI_SETTLEMENT_PENDING. */
  waitMs: number;
}

/** Time limits of paid generations (ms). */
interface GenerationTiming {
  /**
   * Lease of the request that holds a generation. The holder renews it, so a dead holder blocks equal requests for at most this
   * long.
   */
  leaseMs: number;
  /** Longest wait of an equal request for the holder's result. */
  waitMs: number;
}

export const GENERATION_TIMING: GenerationTiming = { leaseMs: 30 * SECOND, waitMs: 25 * SECOND };

/** Dependencies of the model provider routes. */
export interface ProviderDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  models: Pick<FollowedModels, 'status' | 'changed'>;
  /** Addresses that may receive a key, in addition to the official ones. */
  trusted: TrustedAddresses;
  /** Token of the admin service; undefined = the admin service cannot authenticate. */
  adminServiceToken: Secrets | undefined;
}

/** The acting user and its organization; the guards of all job and preview routes require both. */
export interface Caller extends JobOwner {
  actorRole: string;
}

/** Returns the caller of a job or preview. @throws if the route has no guards that require actor and organization */
export function callerOf({ actor, organizationId }: Identity): Caller {
  if (actor === undefined || organizationId === undefined) throw new Error('route without its guards read its caller');
  return { actorId: actor.id, actorRole: actor.role, organizationId };
}

/** Returns the scope under which owner services are called on behalf of the caller. */
export function scopeOf(identity: Identity): OwnerScope {
  const { actorId, actorRole, organizationId } = callerOf(identity);
  return { organizationId, actor: { id: actorId, role: actorRole } };
}
