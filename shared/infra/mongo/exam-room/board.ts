import type { Document, Filter } from 'mongodb';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Attempt, AttemptStatus } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import {
  type BoardFacts,
  type BoardFlag,
  type BoardPlace,
  type BoardSummary,
  boardCursor,
  boardRow,
  emptySummary,
  OFTEN_AWAY,
  SILENT_AFTER_MS,
} from '#shared/exam-room/board.ts';
import { examinedBy } from './examined.ts';

/** The index of the attempts of an exam by student, in the order of a board. No save and no event writes it. */
const IN_ORDER = 'of_exam_by_student';

const BOARD_FIELDS = {
  studentId: 1,
  studentInfo: 1,
  attemptNumber: 1,
  status: 1,
  startedAt: 1,
  deadlineAt: 1,
  submittedAt: 1,
  lastSeenAt: 1,
  lastSavedAt: 1,
  away: 1,
  networkRetries: 1,
  extraMinutes: 1,
  voidedAt: 1,
  'tally.questions': 1,
  'tally.answers': 1,
} as const;

/** A page of a board: its filters, and its place; null means none. */
export interface BoardPage {
  examId: string;
  status: AttemptStatus | null;
  flag: BoardFlag | null;
  after: BoardPlace | null;
  limit: number;
}

interface WantedRows extends BoardPage {
  by: Examiner;
  now: Date;
}

/** Returns a page of the board, with the counts of all attempts that the caller examines. */
export async function boardOf(mongo: Mongo, wanted: WantedRows) {
  const { examId, by, limit, now } = wanted;
  const [summary, found] = await Promise.all([boardSummary(mongo, examId, by, now), boardPage(mongo, wanted)]);

  const rows = found.slice(0, limit);
  const last = rows.at(-1);
  const next = last === undefined || found.length <= limit ? null : boardCursor(last);
  return { summary, rows: rows.map((row) => boardRow(row, now)), next, serverTime: now.toISOString() };
}

/** Returns rows of the board, and one more than `limit` if there is any. */
export async function boardPage(mongo: Mongo, wanted: WantedRows): Promise<BoardFacts[]> {
  const { examId, by, status, flag, after, limit, now } = wanted;
  const conditions: Filter<Attempt>[] = [
    examinedBy(by),
    status === null ? {} : { status },
    flag === null ? {} : FLAGGED[flag](now),
    after === null ? {} : behind(after),
  ];
  const given = conditions.filter((one) => Object.keys(one).length > 0);
  const found = await attempts(mongo)
    .find(
      { examId, ...(given.length === 0 ? {} : { $and: given }) },
      { projection: BOARD_FIELDS, hint: IN_ORDER, maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .sort({ studentId: 1, attemptNumber: 1 })
    .limit(limit + 1)
    .toArray();
  return found as BoardFacts[];
}

function behind({ studentId, attemptNumber }: BoardPlace): Filter<Attempt> {
  const later = { $or: [{ studentId: { $gt: studentId } }, { studentId, attemptNumber: { $gt: attemptNumber } }] };
  return { $and: [{ studentId: { $gte: studentId } }, later] };
}

/** Filters of the flags, as `flagsOf` sets them. */
const FLAGGED: Readonly<Record<BoardFlag, (now: Date) => Filter<Attempt>>> = {
  AWAY: () => ({ status: 'IN_PROGRESS', 'away.since': { $gt: new Date(0) } }),
  SILENT(now) {
    const until = new Date(now.getTime() - SILENT_AFTER_MS);
    const unseen = [{ lastSeenAt: { $lte: until } }, { lastSeenAt: null, startedAt: { $lte: until } }];
    return { status: 'IN_PROGRESS', $or: unseen };
  },
  OFTEN_AWAY: () => ({ 'away.count': { $gte: OFTEN_AWAY } }),
  OVERDUE: (now) => ({ status: 'IN_PROGRESS', deadlineAt: { $lte: now } }),
};

/** Counts the attempts of the board that the caller examines, as `addToSummary` does. */
export async function boardSummary(mongo: Mongo, examId: string, by: Examiner, now: Date): Promise<BoardSummary> {
  const until = new Date(now.getTime() - SILENT_AFTER_MS);
  const isOpen = { $eq: ['$status', 'IN_PROGRESS'] };
  const [counts] = await attempts(mongo)
    .aggregate<BoardSummary>(
      [
        { $match: { examId, voidedAt: null, ...examinedBy(by) } },
        {
          $group: {
            _id: null,
            started: { $sum: 1 },
            open: countOf(isOpen),
            submitted: countOf({ $eq: ['$status', 'SUBMITTED'] }),
            graded: countOf({ $eq: ['$status', 'GRADED'] }),
            away: countOf(isOpen, { $ne: [{ $ifNull: ['$away.since', null] }, null] }),
            silent: countOf(isOpen, { $lte: [{ $ifNull: ['$lastSeenAt', '$startedAt'] }, until] }),
            overdue: countOf(isOpen, { $ne: ['$deadlineAt', null] }, { $lte: ['$deadlineAt', now] }),
          },
        },
        { $project: { _id: 0 } },
      ],
      { hint: IN_ORDER, maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .toArray();
  return counts ?? emptySummary();
}

function countOf(...conditions: Document[]): Document {
  return { $sum: { $cond: [{ $and: conditions }, 1, 0] } };
}

/** A row of the board with what decides who sees it, and with the stamp of its last write. */
export type WatchedFacts = BoardFacts & Pick<Attempt, 'scope' | 'stamp'>;

/** Attempts of one exam that the reader of its streams wants: all, those that were written since a time, or some by their ids. */
export type Watched = { examId: string } & (
  | { kind: 'all' }
  | { kind: 'since'; time: Date }
  | { kind: 'some'; ids: readonly string[] }
);

/**
 * Yields attempts for the reader of the streams of an exam. MongoDB finds those of a time among all attempts of the exam, because no index
 * holds a field that a save changes, and returns the few that were written.
 */
export async function* watchedRows(mongo: Mongo, watched: Watched): AsyncGenerator<WatchedFacts> {
  const cursor = attempts(mongo).find(
    { examId: watched.examId, ...conditionOf(watched) },
    {
      projection: { ...BOARD_FIELDS, scope: 1, stamp: 1 },
      hint: IN_ORDER,
      batchSize: 1_000,
      maxTimeMS: QUERY_LIMIT_MS * 4,
    },
  );
  for await (const facts of cursor) yield facts as WatchedFacts;
}

function conditionOf(watched: Watched): Filter<Attempt> {
  switch (watched.kind) {
    case 'all':
      return {};
    case 'since':
      return { $or: ['lastSeenAt', 'boardAt', 'startedAt'].map((field) => ({ [field]: { $gte: watched.time } })) };
    case 'some':
      return { _id: { $in: [...watched.ids] } };
  }
}
