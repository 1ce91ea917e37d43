import type { JobRow, PreviewLeasesRow } from '#infra/mongo/classifier/collections.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { Generation, OrganizationHolds } from '#shared/classifier/generation.ts';
import type { JobBatch, JobSelection } from '#shared/classifier/job.ts';
import type { ProviderSetting, SettingChange } from '#shared/classifier/provider/setting.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { byPerson, type Declaration, type FieldRules } from './rules.ts';

const ADMIN = { kept: 'the audit of a setting that is in force for every organization' } as const;

/** Model work belongs to its organization and stays. The actor becomes a pseudonym, also in keys that digest the id. */
export const CLASSIFIER_FIELDS = {
  ai_jobs: {
    links: [
      {
        by: 'person',
        field: 'actorId',
        erase: {
          update: ({ pseudonym }) => [
            { $set: { actorId: { $literal: pseudonym }, openKey: { $concat: ['erased:', '$_id'] } } },
          ],
        },
        // A running round stores the actor with each call of a provider.
        waits: () => ({ open: true }),
      },
    ],
    fields: {
      _id: 'no person',
      status: 'no person',
      round: 'no person',
      revision: 'no person',
      actorId: 'pseudonym',
      actorRole: 'no person',
      organizationId: 'no person',
      fields: 'no person',
      mode: 'no person',
      overwrite: 'no person',
      threshold: 'no person',
      open: 'no person',
      openKey: 'removed',
      slotted: 'no person',
      actorSlot: 'no person',
      organizationSlot: 'no person',
      context: 'no person',
      counts: 'no person',
      usage: 'no person',
      error: 'no person',
      createdAt: 'no person',
      startedAt: 'no person',
      finishedAt: 'no person',
      updatedAt: 'no person',
      stamp: 'no person',
    },
  } satisfies Declaration<JobRow>,
  ai_job_selections: {
    links: [],
    fields: { _id: 'no person', questionIds: 'no person', filtersText: 'no person' },
  } satisfies Declaration<JobSelection>,
  ai_job_batches: {
    links: [],
    fields: {
      _id: 'no person',
      jobId: 'no person',
      index: 'no person',
      questionIds: 'no person',
      contextText: 'no person',
      outcome: 'no person',
      vain: 'no person',
    },
  } satisfies Declaration<JobBatch>,
  ai_generations: {
    links: [
      {
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
      },
    ],
    fields: {
      _id: 'no person',
      key: 'removed',
      epoch: 'no person',
      organizationId: 'no person',
      actor: 'pseudonym',
      leaseUntil: 'no person',
      heldBy: 'no person',
      fence: 'no person',
      failure: 'no person',
      usageConsumed: 'no person',
      closed: 'no person',
      createdAt: 'no person',
      idleSince: 'no person',
      state: 'no person',
      result: 'no person',
      charge: 'no person',
      commandId: 'no person',
      replayUntil: 'no person',
      settledAt: 'no person',
      stamp: 'no person',
    },
  } satisfies Declaration<Generation & Stamped>,
  ai_generation_holds: {
    links: [],
    fields: { _id: 'no person', holds: 'no person', stamp: 'no person' },
  } satisfies Declaration<OrganizationHolds & Stamped>,
  ai_preview_leases: {
    links: [{ ...byPerson('_id'), waits: (now) => ({ 'leases.until': { $gt: now } }) }],
    fields: { _id: 'with its row', leases: 'with its row', lastAt: 'with its row', stamp: 'with its row' },
  } satisfies Declaration<PreviewLeasesRow>,
  ai_usage_events: {
    links: [
      {
        by: 'person',
        field: 'actorId',
        erase: { update: ({ pseudonym }) => ({ $set: { actorId: pseudonym, requestId: null } }) },
      },
    ],
    fields: {
      _id: 'no person',
      operation: 'no person',
      organizationId: 'no person',
      actorId: 'pseudonym',
      requestId: 'removed',
      jobId: 'no person',
      batchIndex: 'no person',
      inputTokens: 'no person',
      outputTokens: 'no person',
      provider: 'no person',
      baseUrl: 'no person',
      model: 'no person',
      latencyMs: 'no person',
      attempt: 'no person',
      retryWaitMs: 'no person',
      circuit: 'no person',
      httpStatus: 'no person',
      outcome: 'no person',
      errorCode: 'no person',
      providerRequestId: 'no person',
      promptVersion: 'no person',
      createdAt: 'no person',
    },
  } satisfies Declaration<UsageEvent & { _id: string }>,
  ai_provider_settings: {
    links: [],
    fields: {
      _id: 'no person',
      provider: 'no person',
      model: 'no person',
      baseUrl: 'no person',
      apiKeyRef: 'no person',
      enabled: 'no person',
      version: 'no person',
      updatedAt: 'no person',
      updatedBy: ADMIN,
    },
  } satisfies Declaration<ProviderSetting>,
  ai_setting_changes: {
    links: [],
    fields: {
      _id: 'no person',
      settingId: 'no person',
      version: 'no person',
      at: 'no person',
      actorId: ADMIN,
      organizationId: 'no person',
      before: 'no person',
      after: 'no person',
    } satisfies FieldRules<SettingChange>,
  },
} as const;
