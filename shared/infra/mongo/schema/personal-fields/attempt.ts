import type { EventRow, SeatRow, StoredPaper, TextRow } from '#infra/mongo/attempt/collections.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { StoredRelease } from '#shared/attempt/release.ts';
import type { Command } from '#shared/kernel/command.ts';
import { COMMAND_FIELDS } from './command-fields.ts';
import type { Declaration } from './rules.ts';

const STAFF = { kept: 'decides which teachers may read the attempt; the exam service owns these ids' } as const;

/**
 * An attempt outlives its student, because statistics and results of the exam count it. Scores, selected options and times stay. Free
 * text is the student's own work and may name its author, so it is removed.
 */
export const ATTEMPT_FIELDS = {
  attempts: {
    links: [{ by: 'person', field: 'studentId', erase: { rewrite: 'attempt' }, omit: ['scope'] }],
    fields: {
      _id: 'no person',
      v: 'no person',
      examId: 'no person',
      studentId: 'pseudonym',
      organizationId: 'no person',
      accessLinkId: 'no person',
      attemptNumber: 'no person',
      status: 'no person',
      startedAt: 'no person',
      submittedAt: 'no person',
      deadlineAt: 'no person',
      durationSeconds: 'no person',
      submittedBy: 'no person',
      startKeys: 'removed',
      studentInfo: 'removed',
      courseContext: 'pseudonym',
      exam: 'no person',
      scope: STAFF,
      paperId: 'no person',
      order: 'no person',
      optionOrders: 'no person',
      seed: { secret: { kept: 'orders the attempt and names its questions; it is random' } },
      maxScore: 'no person',
      answers: 'removed',
      events: 'removed',
      eventSeq: 'no person',
      clientEvents: 'no person',
      answerBytes: 'no person',
      releasesSeen: 'no person',
      releaseEventId: 'no person',
      waitingHandoffs: 'no person',
      totalScore: 'no person',
      correctCount: 'no person',
      wrongCount: 'no person',
      pendingManualCount: 'no person',
      tally: 'no person',
      erasedAt: 'no person',
      stamp: 'no person',
    },
  } satisfies Declaration<Attempt>,
  attempt_papers: {
    links: [],
    fields: { _id: 'no person', questions: 'no person', orderIndexes: 'no person' },
  } satisfies Declaration<StoredPaper>,
  attempt_events: {
    links: [{ by: 'attempt', field: 'attemptId', erase: 'with its attempt' }],
    fields: {
      _id: 'no person',
      attemptId: 'no person',
      seq: 'no person',
      type: 'no person',
      metadata: 'removed',
      createdAt: 'no person',
      inRow: 'no person',
    },
  } satisfies Declaration<EventRow>,
  attempt_texts: {
    links: [{ by: 'attempt', field: 'attemptId', erase: 'with its attempt' }],
    fields: { _id: 'with its row', attemptId: 'with its row', answerKey: 'with its row', text: 'with its row' },
  } satisfies Declaration<TextRow>,
  attempt_link_seats: {
    links: [{ by: 'person', field: 'studentId', erase: { rewrite: 'seat' } }],
    fields: {
      _id: 'pseudonym',
      linkId: 'no person',
      studentId: 'pseudonym',
      seat: 'no person',
      numbered: 'no person',
      takenAt: 'no person',
    },
  } satisfies Declaration<SeatRow>,
  attempt_releases: {
    links: [],
    fields: {
      _id: 'no person',
      examId: 'no person',
      organizationId: 'no person',
      releasedAt: 'no person',
      sourceEventId: 'no person',
      number: 'no person',
    },
  } satisfies Declaration<StoredRelease & { _id: string }>,
  attempt_notices: {
    links: [
      {
        by: 'attempt',
        field: 'subject',
        erase: 'delete',
        // A worker that is sending the notice would create a notification about the student after the erasure.
        waits: (now) => ({ lockedUntil: { $gt: now } }),
      },
    ],
    fields: { ...COMMAND_FIELDS, subject: 'with its row', body: 'with its row' },
  } satisfies Declaration<Command<GradeNotice>>,
} as const;
