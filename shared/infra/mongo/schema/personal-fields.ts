import type {
  EventRow,
  ExamActRow,
  RegradeLine,
  RegradeRow,
  SeatRow,
  StoredPaper,
  TextRow,
} from '#infra/mongo/attempt/collections.ts';
import type { ExamRow } from '#infra/mongo/attempt/exams.ts';
import type {
  AccountRow,
  KnownPairRow,
  SecurityEvent,
  SessionRow,
  ThrottleRow,
  TokenRow,
} from '#infra/mongo/auth/collections.ts';
import type { JobRow, PreviewLeasesRow } from '#infra/mongo/classifier/collections.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { StoredRelease } from '#shared/attempt/release.ts';
import type { Generation, OrganizationHolds } from '#shared/classifier/generation.ts';
import type { JobBatch, JobSelection } from '#shared/classifier/job.ts';
import type { ProviderSetting, SettingChange } from '#shared/classifier/provider/setting.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import type { Command } from '#shared/kernel/command.ts';
import { NOTIFICATION_FIELDS } from './personal-fields/notification.ts';
import { MESSAGE_FIELDS, OPERATION_FIELDS, whileLeased } from './personal-fields/operation.ts';
import { byPerson, type Declaration, declareRows, type Link, updated } from './personal-fields/rules.ts';

const BY_ATTEMPT: Link = { by: 'attempt', field: 'attemptId', erase: 'with its attempt' };

/** A worker that is sending the notice would create a notification about the student after the erasure. */
const BY_NOTICE: Link = { by: 'attempt', field: 'subject', erase: 'delete', waits: whileLeased };

/** Reason of the fields of an act that name an examiner or hold the words of one. */
const OF_ACT = 'the record of an act on attempts, as in the audit: who did it, and why';

/** An act that names the student goes on under the pseudonym, as the attempts do. An export shows no other student whom it names. */
const NAMED_BY_ACT: Link = updated(
  'studentIds',
  ({ id, pseudonym }) => [
    {
      $set: {
        studentIds: {
          $map: {
            input: '$studentIds',
            in: { $cond: [{ $eq: ['$$this', { $literal: id }] }, { $literal: pseudonym }, '$$this'] },
          },
        },
      },
    },
  ],
  '',
);

/** Reason of the fields of an exam that name its teachers. */
const OF_SCOPE = 'decides which teachers see the exam in their list; the exam service owns these ids';

/**
 * An attempt outlives its student, because statistics and results of the exam count it. Scores, selected options and times stay. Free
 * text is the student's own work and may name its author, so it is removed.
 */
const ATTEMPT_FIELDS = {
  attempts: declareRows<Attempt>()([{ by: 'person', field: 'studentId', erase: { rewrite: 'attempt' } }], {
    pseudonym: 'studentId courseContext',
    removed: 'startKeys studentInfo answers events',
    stays: `_id v examId organizationId accessLinkId attemptNumber status startedAt submittedAt deadlineAt
      away networkRetries lastSeenAt lastSavedAt boardAt
      durationSeconds submittedBy exam paperId order optionOrders maxScore eventSeq clientEvents answerBytes releasesSeen
      releaseEventId waitingHandoffs totalScore correctCount wrongCount pendingManualCount tally extraMinutes extraTime round voidedAt startLimits erasedAt`,
    secret: 'scope seed voidedBy voidReason scoreHistory',
    technical: 'stamp',
    kept: {
      scope: 'decides which teachers may read the attempt; the exam service owns these ids',
      seed: 'orders the attempt and names its questions; it is random',
      voidedBy: OF_ACT,
      voidReason: OF_ACT,
      scoreHistory: OF_ACT,
    },
  }),
  attempt_papers: declareRows<StoredPaper>()([], { technical: '_id questions orderIndexes' }),
  attempt_events: declareRows<EventRow>()([BY_ATTEMPT], {
    removed: 'metadata',
    stays: '_id attemptId seq type createdAt inRow',
  }),
  attempt_texts: declareRows<TextRow>()([BY_ATTEMPT], { deleted: '_id attemptId answerKey text' }),
  attempt_link_seats: declareRows<SeatRow>()([{ by: 'person', field: 'studentId', erase: { rewrite: 'seat' } }], {
    pseudonym: '_id studentId',
    stays: 'linkId seat numbered takenAt usedAt',
  }),
  attempt_releases: declareRows<StoredRelease & { _id: string }>()([NAMED_BY_ACT], {
    pseudonym: 'studentIds',
    technical: '_id examId organizationId releasedAt sourceEventId number',
  }),
  attempt_exams: declareRows<ExamRow>()([], {
    technical: '_id title subject gradeLevel organizationId firstStartedAt activeUntil examinerIds scopes',
    kept: { examinerIds: OF_SCOPE, scopes: OF_SCOPE },
  }),
  attempt_exam_acts: declareRows<ExamActRow>()([NAMED_BY_ACT], {
    pseudonym: 'studentIds',
    technical: '_id examId kind minutes by reason at updated sitting',
    kept: { by: OF_ACT, reason: OF_ACT },
  }),
  attempt_regrades: declareRows<RegradeRow>()([], {
    technical:
      '_id examId state changes by reason createdAt appliedAt appliedBy number isApplied attempts changed up down expiresAt',
    kept: { by: OF_ACT, reason: OF_ACT, appliedBy: OF_ACT },
  }),
  attempt_regrade_lines: declareRows<RegradeLine>()([{ by: 'attempt', field: 'attemptId', erase: 'delete' }], {
    deleted: '_id regradeId attemptId studentId studentInfo before after questions expiresAt',
    secret: 'examiners',
  }),
  attempt_notices: declareRows<Command<GradeNotice> & Stamped>()([BY_NOTICE], MESSAGE_FIELDS),
} as const;

/** Every row of an account is deleted. The account is last, because its e-mail leads to the rows before it. */
const AUTH_FIELDS = {
  auth_throttles: declareRows<ThrottleRow>()([{ by: 'email', field: '_id', erase: 'delete' }], {
    deleted: '_id tries failures blockedUntil lastTryAt round',
    technical: 'stamp',
  }),
  auth_known_pairs: declareRows<KnownPairRow>()([{ by: 'email', field: 'account', erase: 'delete' }], {
    deleted: '_id account signedInAt tries failures blockedUntil lastTryAt round',
    technical: 'stamp',
  }),
  auth_sessions: declareRows<SessionRow>()([byPerson('accountId')], {
    deleted: '_id accountId userAgent createdAt lastUsedAt expiresAt endedAt endReason',
    technical: 'stamp',
  }),
  auth_tokens: declareRows<TokenRow>()([byPerson('accountId')], {
    deleted: '_id sessionId accountId issuedAt expiresAt consumedAt successorId',
    secret: 'hash',
    technical: 'stamp',
  }),
  auth_security_events: declareRows<SecurityEvent>()([byPerson('accountId')], {
    deleted: '_id accountId sessionId type at metadata',
  }),
  accounts: declareRows<AccountRow>()([byPerson('_id')], {
    deleted: `_id accountCode email phone hasPhone legacyId hasLegacyId fullName role status memberships
      defaultOrganizationId deviceEpoch createdAt updatedAt lastLoginAt importedAt`,
    secret: 'password',
    technical: 'stamp',
  }),
} as const;

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
const CLASSIFIER_FIELDS = {
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

/**
 * The register of personal data: a table of each collection of the product, with every field in one column. Export and erasure follow it,
 * and an export contains only what it names. A field that a row type has and its table lacks is a compile error, and so is a field that is
 * misspelt or gone. `indexes.ts` names collections of the register only, and `schema.test.ts` finds every other collection in the
 * sources.
 *
 * The order is that of an erasure. Attempts and notifications come before the account, whose e-mail leads to the login rows.
 */
export const PERSONAL_FIELDS = {
  ...ATTEMPT_FIELDS,
  ...NOTIFICATION_FIELDS,
  ...CLASSIFIER_FIELDS,
  ...OPERATION_FIELDS,
  ...AUTH_FIELDS,
} as const;

/** The name of a declared collection. */
export type CollectionName = keyof typeof PERSONAL_FIELDS;

/** A link, and the collection to which it leads. */
export interface CollectionLink extends Link {
  readonly collection: CollectionName;
  /** Fields by which an earlier link finds rows of the person, so that no row is counted or exported twice. */
  readonly earlier: readonly string[];
  /** True if an earlier link finds the same rows. Erasure does several things to them. */
  readonly isRepeated: boolean;
}

export const DECLARATIONS = Object.entries(PERSONAL_FIELDS) as [CollectionName, Declaration][];

const LINKS: readonly CollectionLink[] = DECLARATIONS.flatMap(([collection, { links }]) =>
  links.map((link, index) => {
    const before = links.slice(0, index);
    return {
      ...link,
      collection,
      earlier: before.filter(({ by, field }) => by === 'person' && field !== link.field).map(({ field }) => field),
      isRepeated: before.some(({ by, field }) => by === link.by && field === link.field),
    };
  }),
);

/** Returns the links of one kind, in the order of the register. */
export function linksBy(...kinds: readonly Link['by'][]): CollectionLink[] {
  return LINKS.filter(({ by }) => kinds.includes(by));
}

/** The kind of link that leads from the ids of these rows to rows of other collections. */
export const LINKED_FROM: Readonly<Partial<Record<CollectionName, Link['by']>>> = {
  attempts: 'attempt',
  notifications: 'notification',
};
