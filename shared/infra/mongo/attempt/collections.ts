import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import type { Paper } from '#shared/attempt/question.ts';

/** Under the SHA-256 of its content: never changed, never deleted, shared by every attempt that copied it. */
export interface StoredPaper extends Paper {
  _id: string;
}

/** An event that moved out of the attempt document, or never fitted into it. `_id` = attempt id and seq. */
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

/** One student's seat on a link. `seat` is null on a link that counted no seats when the student came. */
export interface SeatRow {
  _id: string;
  linkId: string;
  studentId: string;
  seat: number | null;
  /** True where `seat` is a number: the part of the collection that the unique index on seats is about. */
  numbered: boolean;
  takenAt: Date;
}

/** That an exam's results are out, remembered for attempts that are started or graded later. `_id` = releaseRowId. */
export interface ReleaseRow {
  _id: string;
  examId: string;
  organizationId: string | null;
  releasedAt: Date;
  sourceEventId: string;
}

export const ATTEMPTS = 'attempts';
const PAPERS = 'attempt_papers';
export const EVENT_ROWS = 'attempt_events';
export const TEXT_ROWS = 'attempt_texts';
export const SEATS = 'attempt_link_seats';
const RELEASES = 'attempt_releases';

export const attempts = (mongo: Mongo): Collection<Attempt> => mongo.db.collection(ATTEMPTS);
export const papers = (mongo: Mongo): Collection<StoredPaper> => mongo.db.collection(PAPERS);
export const eventRows = (mongo: Mongo): Collection<EventRow> => mongo.db.collection(EVENT_ROWS);
export const textRows = (mongo: Mongo): Collection<TextRow> => mongo.db.collection(TEXT_ROWS);
export const seats = (mongo: Mongo): Collection<SeatRow> => mongo.db.collection(SEATS);
export const releases = (mongo: Mongo): Collection<ReleaseRow> => mongo.db.collection(RELEASES);
