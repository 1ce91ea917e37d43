import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { Generation, OrganizationHolds } from '#shared/classifier/generation.ts';
import type { ClassificationJob, JobBatch, JobSelection } from '#shared/classifier/job.ts';
import type { ProviderSetting, SettingChange } from '#shared/classifier/provider/setting.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';

export type JobRow = ClassificationJob & Stamped;

// Jobs.
export const AI_JOBS = 'ai_jobs';
export const AI_JOB_SELECTIONS = 'ai_job_selections';
export const AI_JOB_BATCHES = 'ai_job_batches';

export const aiJobs = (mongo: Mongo): Collection<JobRow> => mongo.db.collection(AI_JOBS);
export const aiJobSelections = (mongo: Mongo): Collection<JobSelection> => mongo.db.collection(AI_JOB_SELECTIONS);
export const aiJobBatches = (mongo: Mongo): Collection<JobBatch> => mongo.db.collection(AI_JOB_BATCHES);

// Paid generations.
export const GENERATIONS = 'ai_generations';
const GENERATION_HOLDS = 'ai_generation_holds';

/** Names one generation and its key, which decides on which shard it is. */
export type GenerationKey = Pick<Generation, '_id' | 'key'>;

export const generations = (mongo: Mongo): Collection<Generation & Stamped> => mongo.db.collection(GENERATIONS);
export const generationHolds = (mongo: Mongo): Collection<OrganizationHolds & Stamped> =>
  mongo.db.collection(GENERATION_HOLDS);

// Previews in flight.
/** The previews of one actor that are in flight; `_id` is the actor's id. */
export interface PreviewLeasesRow extends Stamped {
  _id: string;
  leases: { id: string; until: Date }[];
  lastAt: Date;
}

export const PREVIEW_LEASES = 'ai_preview_leases';

export const previewLeases = (mongo: Mongo): Collection<PreviewLeasesRow> => mongo.db.collection(PREVIEW_LEASES);

// Model providers.
export const PROVIDER_SETTINGS = 'ai_provider_settings';
export const SETTING_CHANGES = 'ai_setting_changes';
export const USAGE_EVENTS = 'ai_usage_events';

export const providerSettings = (mongo: Mongo): Collection<ProviderSetting> => mongo.db.collection(PROVIDER_SETTINGS);
export const settingChanges = (mongo: Mongo): Collection<SettingChange> => mongo.db.collection(SETTING_CHANGES);
export const usageEvents = (mongo: Mongo): Collection<UsageEvent & { _id: string }> =>
  mongo.db.collection(USAGE_EVENTS);
