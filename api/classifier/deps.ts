import type { Streams } from '#api/http/live-stream.ts';
import type { Identity } from '#api/route.ts';
import type { Neighbour, Neighbours } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { FollowedModels } from '#infra/models/followed-models.ts';
import type { JobOwner } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { OwnerScope } from '#infra/neighbours/owner-call.ts';
import type { ChangeBell } from '#infra/redis/change-bell.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

/** What the AI classifier's front door works with, by its three parts. */
export interface ClassifierDeps {
  jobs: JobDeps;
  previews: PreviewDeps;
  providers: ProviderDeps;
}

/** What the routes of classification jobs work with. */
export interface JobDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  doorbells: Pick<Doorbells, 'ring'>;
  /** null: prompts hold ids only. */
  questionBank: Neighbour | null;
  /** Attempts of one round of a job. */
  jobAttempts: number;
  /** Of jobs: wakes their streams, and is heard by them. */
  jobBell: Pick<ChangeBell, 'wake' | 'listen' | 'canHear'>;
  streams: Streams;
  log: Pick<Log, 'debug' | 'warn'>;
}

/** What previews work with. */
export interface PreviewDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  models: Models;
  neighbours: Pick<Neighbours, 'questionBank' | 'usage' | 'wallet'>;
  outboundTimeoutMs: number;
  /** Generated questions are paid for; else nothing of a preview is stored. */
  settles: boolean;
  patience: GenerationPatience;
  log: Pick<Log, 'warn'>;
}

/** Of generations that are paid for (ms). */
interface GenerationPatience {
  /** For which one that is being made is its maker's; renewed meanwhile, so that a dead maker holds up nobody for longer. */
  leaseMs: number;
  /** For which an equal request waits for it. */
  waitMs: number;
}

export const GENERATION_PATIENCE: GenerationPatience = { leaseMs: 30 * SECOND, waitMs: 25 * SECOND };

/** What the routes of model providers work with. */
export interface ProviderDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  models: Pick<FollowedModels, 'status' | 'changed'>;
  /** Origins beside the official ones to which a key may go. */
  allowedOrigins: readonly string[];
  /** By which the admin service proves itself; undefined = it cannot. */
  adminServiceToken: string | undefined;
}

/** Who asks, and in which organization: the guards of every route of jobs and previews demand both. */
export interface Caller extends JobOwner {
  actorRole: string;
}

export function callerOf({ actor, organizationId }: Identity): Caller {
  if (actor === undefined || organizationId === undefined) throw new Error('a route without guards asked who calls');
  return { actorId: actor.id, actorRole: actor.role, organizationId };
}

/** The same, as owners are called in its name. */
export function scopeOf(identity: Identity): OwnerScope {
  const { actorId, actorRole, organizationId } = callerOf(identity);
  return { organizationId, actor: { id: actorId, role: actorRole } };
}
