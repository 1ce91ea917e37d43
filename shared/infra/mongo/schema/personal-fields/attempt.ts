import type { EventRow, SeatRow, StoredPaper, TextRow } from '#infra/mongo/attempt/collections.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { StoredRelease } from '#shared/attempt/release.ts';
import type { Command } from '#shared/kernel/command.ts';
import { MESSAGE_FIELDS, whileLeased } from './operation.ts';
import { declareRows, type Link } from './rules.ts';

const BY_ATTEMPT: Link = { by: 'attempt', field: 'attemptId', erase: 'with its attempt' };

/** A worker that is sending the notice would create a notification about the student after the erasure. */
const BY_NOTICE: Link = { by: 'attempt', field: 'subject', erase: 'delete', waits: whileLeased };

/**
 * An attempt outlives its student, because statistics and results of the exam count it. Scores, selected options and times stay. Free
 * text is the student's own work and may name its author, so it is removed.
 */
export const ATTEMPT_FIELDS = {
  attempts: declareRows<Attempt>()([{ by: 'person', field: 'studentId', erase: { rewrite: 'attempt' } }], {
    pseudonym: 'studentId courseContext',
    removed: 'startKeys studentInfo answers events',
    stays: `_id v examId organizationId accessLinkId attemptNumber status startedAt submittedAt deadlineAt
      durationSeconds submittedBy exam paperId order optionOrders maxScore eventSeq clientEvents answerBytes releasesSeen
      releaseEventId waitingHandoffs totalScore correctCount wrongCount pendingManualCount tally erasedAt`,
    secret: 'scope seed',
    technical: 'stamp',
    kept: {
      scope: 'decides which teachers may read the attempt; the exam service owns these ids',
      seed: 'orders the attempt and names its questions; it is random',
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
    stays: 'linkId seat numbered takenAt',
  }),
  attempt_releases: declareRows<StoredRelease & { _id: string }>()([], {
    technical: '_id examId organizationId releasedAt sourceEventId number',
  }),
  attempt_notices: declareRows<Command<GradeNotice> & Stamped>()([BY_NOTICE], MESSAGE_FIELDS),
} as const;
