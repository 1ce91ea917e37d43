import type { Document, Filter } from 'mongodb';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { type ExamRow, exams } from '#infra/mongo/attempt/exams.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { examinedBy } from './examined.ts';

/** Counts of the attempts of an exam that a caller examines. A voided attempt is in `voided` alone. */
export interface ExamCounts {
  open: number;
  submitted: number;
  graded: number;
  pendingManual: number;
  voided: number;
  lastDeadlineAt: Date | null;
}

export interface ListedExam {
  row: ExamRow;
  counts: ExamCounts;
}

interface WantedExams {
  by: Examiner;
  state: 'running' | 'ended' | null;
  /** The exam after which the page begins; null for the first page. */
  before: Pick<ExamRow, '_id' | 'firstStartedAt'> | null;
  limit: number;
  now: Date;
}

/** Exams that one page reads at most. An examiner with more of the other state than this gets a shorter page, and goes on after it. */
const MAX_READ = 2_000;
const CHUNK = 100;

/** Finds the place of an exam in the list, or returns null. */
export function findListed(mongo: Mongo, examId: string): Promise<ExamRow | null> {
  return exams(mongo).findOne({ _id: examId }, { maxTimeMS: QUERY_LIMIT_MS });
}

/**
 * Returns a page of the exams of an examiner, the newest first, and the exam after which the next page begins. An exam is running while an
 * attempt is open or a deadline is ahead.
 */
export async function listExams(
  mongo: Mongo,
  { by, state, before, limit, now }: WantedExams,
): Promise<{ exams: ListedExam[]; next: string | null }> {
  const listed: ListedExam[] = [];
  const overdue = state === 'running' ? await overdueExams(mongo, now) : [];
  let last = before;
  for (let read = 0; read < MAX_READ; read += CHUNK) {
    const filter: Filter<ExamRow>[] = [
      ...(by.role === 'ADMIN' ? [] : [{ examinerIds: by.id }]),
      ...(last === null ? [] : [after(last)]),
      ...(state === 'running' ? [{ $or: [{ activeUntil: { $gt: now } }, { _id: { $in: overdue } }] }] : []),
    ];
    const rows = await exams(mongo)
      .find(filter.length === 0 ? {} : { $and: filter }, { maxTimeMS: QUERY_LIMIT_MS })
      .sort({ firstStartedAt: -1, _id: -1 })
      .limit(CHUNK)
      .toArray();
    const counted = await countExams(mongo, rows, by);
    for (const row of rows) {
      const counts = counted.get(row._id);
      if (counts === undefined || (state !== null && isRunning(counts, now) !== (state === 'running'))) continue;
      if (listed.length === limit) return { exams: listed, next: listed.at(-1)?.row._id ?? null };
      listed.push({ row, counts });
    }
    if (rows.length < CHUNK) return { exams: listed, next: null };
    last = rows.at(-1) ?? null;
  }
  return { exams: listed, next: last?._id ?? null };
}

function after({ _id, firstStartedAt }: Pick<ExamRow, '_id' | 'firstStartedAt'>): Filter<ExamRow> {
  return { $or: [{ firstStartedAt: { $lt: firstStartedAt } }, { firstStartedAt, _id: { $lt: _id } }] };
}

function isRunning({ open, lastDeadlineAt }: ExamCounts, now: Date): boolean {
  return open > 0 || (lastDeadlineAt !== null && lastDeadlineAt > now);
}

/** Returns the exams of open attempts whose deadline has passed. The sweep submits them, so they are few. */
async function overdueExams(mongo: Mongo, now: Date): Promise<string[]> {
  const found = await attempts(mongo)
    .find(
      { status: 'IN_PROGRESS', deadlineAt: { $lte: now } },
      { projection: { examId: 1 }, hint: 'overdue', limit: MAX_READ, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return [...new Set(found.map(({ examId }) => examId))];
}

/** Counts the attempts of each exam that the caller examines; an exam without one is missing. */
async function countExams(mongo: Mongo, rows: readonly ExamRow[], by: Examiner): Promise<Map<string, ExamCounts>> {
  const seesAll = ({ scopes }: ExamRow) =>
    by.role === 'ADMIN' || scopes.every((scope) => (JSON.parse(scope) as string[]).includes(by.id));
  const [whole, mixed] = [rows.filter(seesAll), rows.filter((row) => !seesAll(row))];
  const counted = await Promise.all([
    countAttempts(mongo, whole, {}),
    // The scope is in no index, so the attempts themselves are read. An exam whose attempts name different teachers is rare.
    countAttempts(mongo, mixed, examinedBy(by)),
  ]);
  return new Map(counted.flat().map(({ _id, ...counts }) => [_id, counts]));
}

async function countAttempts(mongo: Mongo, rows: readonly ExamRow[], examined: Document) {
  if (rows.length === 0) return [];
  return attempts(mongo)
    .aggregate<ExamCounts & { _id: string }>(
      [{ $match: { examId: { $in: rows.map(({ _id }) => _id) }, ...examined } }, { $group: COUNTS }],
      { hint: 'of_exam_by_student', maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .toArray();
}

const COUNTS: Document & { _id: string } = {
  _id: '$examId',
  open: countOf({ $eq: ['$status', 'IN_PROGRESS'] }),
  submitted: countOf({ $eq: ['$status', 'SUBMITTED'] }),
  graded: countOf({ $eq: ['$status', 'GRADED'] }),
  pendingManual: countOf({ $eq: ['$status', 'GRADED'] }, { $gt: ['$pendingManualCount', 0] }),
  voided: { $sum: { $cond: [isVoided(), 1, 0] } },
  lastDeadlineAt: { $max: { $cond: [isVoided(), null, '$deadlineAt'] } },
};

function isVoided(): Document {
  return { $ne: [{ $ifNull: ['$voidedAt', null] }, null] };
}

function countOf(...conditions: Document[]): Document {
  return { $sum: { $cond: [{ $and: [{ $not: [isVoided()] }, ...conditions] }, 1, 0] } };
}
