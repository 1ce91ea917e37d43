import type { JobRow, PreviewLeasesRow } from '#infra/mongo/classifier/collections.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { Generation, OrganizationHolds } from '#shared/classifier/generation.ts';
import type { JobBatch, JobSelection } from '#shared/classifier/job.ts';
import type { ProviderSetting, SettingChange } from '#shared/classifier/provider/setting.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { byPerson, declareRows, type Link, updated } from './rules.ts';

const ADMIN = 'the audit of a setting that is in force for every organization';

const OF_JOB: Link = {
  ...updated('actorId', ({ pseudonym: $literal }) => [
    { $set: { actorId: { $literal }, openKey: { $concat: ['erased:', '$_id'] } } },
  ]),
  // A running round stores the actor with each call of a provider.
  waits: () => ({ open: true }),
};

const OF_GENERATION: Link = {
  by: 'person',
  field: 'actor.id',
  erase: { rewrite: 'generation' },
  // Usage and wallet service receive the actor with the charge, and may refuse a repeat that names another one.
  waits: (now) => ({
    $or: [
      { state: 'PENDING', closed: null },
      { state: 'MAKING', leaseUntil: { $gt: now } },
    ],
  }),
};

const OF_PREVIEW: Link = { ...byPerson('_id'), waits: (now) => ({ 'leases.until': { $gt: now } }) };

const OF_CALL = updated('actorId', ({ pseudonym }) => ({ $set: { actorId: pseudonym, requestId: null } }));

/** Model work belongs to its organization and stays. The actor becomes a pseudonym, also in keys that digest the id. */
export const CLASSIFIER_FIELDS = {
  ai_jobs: declareRows<JobRow>()([OF_JOB], {
    pseudonym: 'actorId',
    removed: 'openKey',
    stays: `_id status round revision actorRole organizationId fields mode overwrite threshold open context counts
      usage error createdAt startedAt finishedAt updatedAt`,
    technical: 'slotted actorSlot organizationSlot stamp',
  }),
  ai_job_selections: declareRows<JobSelection>()([], { technical: '_id questionIds filtersText' }),
  ai_job_batches: declareRows<JobBatch>()([], {
    technical: '_id jobId index questionIds contextText outcome vain',
  }),
  ai_generations: declareRows<Generation & Stamped>()([OF_GENERATION], {
    pseudonym: 'actor',
    removed: 'key',
    stays: `_id epoch organizationId failure usageConsumed closed createdAt idleSince state result charge commandId
      replayUntil settledAt`,
    technical: 'leaseUntil fence stamp',
  }),
  ai_generation_holds: declareRows<OrganizationHolds & Stamped>()([], { technical: '_id holds stamp' }),
  ai_preview_leases: declareRows<PreviewLeasesRow>()([OF_PREVIEW], {
    deleted: '_id leases lastAt',
    technical: 'stamp',
  }),
  ai_usage_events: declareRows<UsageEvent & { _id: string }>()([OF_CALL], {
    pseudonym: 'actorId',
    removed: 'requestId',
    stays: `_id operation organizationId jobId batchIndex inputTokens outputTokens provider baseUrl model latencyMs attempt
      retryWaitMs circuit httpStatus outcome errorCode providerRequestId promptVersion createdAt`,
  }),
  ai_provider_settings: declareRows<ProviderSetting>()([], {
    technical: '_id provider model baseUrl apiKeyRef enabled version updatedAt updatedBy',
    kept: { updatedBy: ADMIN },
  }),
  ai_setting_changes: declareRows<SettingChange>()([], {
    technical: '_id settingId version at actorId organizationId before after',
    kept: { actorId: ADMIN },
  }),
} as const;
