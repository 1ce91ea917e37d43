import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptEvent, AttemptKey } from '#shared/attempt/attempt.ts';
import type { Correction, RegradeState } from '#shared/attempt/correction.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import type { Paper } from '#shared/attempt/question.ts';
import type { StoredRelease } from '#shared/attempt/release.ts';

/** Returns the filter of one attempt. It names the shard key, so that one shard receives the command. */
export function whereKey({ _id, studentId }: AttemptKey): AttemptKey {
  return { _id, studentId };
}

/** Returns the filter of several attempts, for their shards alone. A caller checks which student each attempt found belongs to. */
export function whereKeys(keys: readonly AttemptKey[]) {
  return { _id: { $in: keys.map(({ _id }) => _id) }, studentId: { $in: keys.map(({ studentId }) => studentId) } };
}

/** A paper under the SHA-256 of its content. It is never changed or deleted; every attempt that copied it shares it. */
export interface StoredPaper extends Paper {
  _id: string;
}

/** An event that moved out of the attempt document, or whose metadata is too long for it. `_id` = attempt id and seq. */
export interface EventRow extends AttemptEvent {
  _id: string;
  attemptId: string;
}

/** A long text of one answer. `_id` = attempt id, answer key and server version, so a reader never mixes versions. */
export interface TextRow {
  _id: string;
  attemptId: string;
  answerKey: string;
  text: string;
}

/** The seat of one student on a link. `seat` is null if the link counted no seats when the student started. */
export interface SeatRow {
  _id: string;
  linkId: string;
  studentId: string;
  seat: number | null;
  /** True if `seat` is a number. The unique index on seats covers only these rows. */
  numbered: boolean;
  takenAt: Date;
  /** When a later attempt of the student has used it. */
  usedAt?: Date;
}

/** A release. Starts read the newest number; grades read the release that binds their attempt. `_id` = exam and number. */
export interface ReleaseRow extends StoredRelease {
  _id: string;
}

/** Content of an act on the attempts of an exam. `_id` is that of its command. Starts read the grants of extra time. */
export interface ExamActRow {
  _id: string;
  examId: string;
  kind: 'EXTRA_TIME' | 'SUBMIT_ALL';
  /** 0: the act gives no time. */
  minutes: number;
  /** The students whom the act names; null means all. */
  studentIds: string[] | null;
  by: Examiner;
  reason: string;
  at: Date;
  /** Attempts that the act has changed, and open attempts that it has met. */
  updated: number;
  sitting: number;
}

/**
 * A regrade of an exam: its changes, and whom they concern. `_id` is that of the act which made it. An applied one stays for ever, because
 * grades follow from it.
 */
export interface RegradeRow {
  _id: string;
  examId: string;
  state: RegradeState;
  changes: Correction[];
  by: Examiner;
  reason: string;
  createdAt: Date;
  /** Time at which it began to bind grades. */
  appliedAt: Date | null;
  /** The examiner who applied it. It binds grades of attempts that both examine. Absent before. */
  appliedBy?: Examiner;
  /** 1 for the first regrade that was applied at the exam. Absent before, as `isApplied` is false. */
  number?: number;
  isApplied: boolean;
  /** Graded attempts that hold a changed question; those of them whose grade changes; and whose total rises or falls. */
  attempts: number;
  changed: number;
  up: number;
  down: number;
  /** End of a preview; null once it is applied. */
  expiresAt: Date | null;
}

/** Changes of one attempt by a regrade. `_id` = regrade id and attempt id. */
export interface RegradeLine {
  _id: string;
  regradeId: string;
  attemptId: string;
  studentId: string;
  /** JSON text, as in the attempt. */
  studentInfo: string | null;
  /** Teachers who may see the line. */
  examiners: string[];
  before: { totalScore: number | null; maxScore: number };
  after: { totalScore: number; maxScore: number };
  questions: { questionId: string; before: number | null; after: number | null }[];
  expiresAt: Date;
}

export const ATTEMPTS = 'attempts';
const PAPERS = 'attempt_papers';
export const EVENT_ROWS = 'attempt_events';
export const TEXT_ROWS = 'attempt_texts';
export const SEATS = 'attempt_link_seats';
export const RELEASES = 'attempt_releases';
export const EXAM_ACTS = 'attempt_exam_acts';
export const REGRADES = 'attempt_regrades';
export const REGRADE_LINES = 'attempt_regrade_lines';

export const attempts = (mongo: Mongo): Collection<Attempt> => mongo.db.collection(ATTEMPTS);
export const papers = (mongo: Mongo): Collection<StoredPaper> => mongo.db.collection(PAPERS);
export const eventRows = (mongo: Mongo): Collection<EventRow> => mongo.db.collection(EVENT_ROWS);
export const textRows = (mongo: Mongo): Collection<TextRow> => mongo.db.collection(TEXT_ROWS);
export const seats = (mongo: Mongo): Collection<SeatRow> => mongo.db.collection(SEATS);
export const releases = (mongo: Mongo): Collection<ReleaseRow> => mongo.db.collection(RELEASES);
export const examActs = (mongo: Mongo): Collection<ExamActRow> => mongo.db.collection(EXAM_ACTS);
export const regrades = (mongo: Mongo): Collection<RegradeRow> => mongo.db.collection(REGRADES);
export const regradeLines = (mongo: Mongo): Collection<RegradeLine> => mongo.db.collection(REGRADE_LINES);
