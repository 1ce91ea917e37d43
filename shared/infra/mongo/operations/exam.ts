import type { Document } from 'mongodb';
import { attempts, releases } from '#infra/mongo/attempt/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { LISTED } from '#infra/mongo/mailbox/dead-letters.ts';
import { shareRunsBy } from '#infra/process/health.ts';
import type { Attempt, AttemptStatus } from '#shared/attempt/attempt.ts';
import { type ReleaseCounts, releaseKey } from '#shared/attempt/commands.ts';
import type { StoredRelease } from '#shared/attempt/release.ts';
import type { Exam, ExamRelease } from '#shared/generated/operations.ts';
import type { Command } from '#shared/kernel/command.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { BOUND } from './reading.ts';

/** Upper bound of the counts of notices. */
const MAX_NOTICES = 10_000;
const MAX_RELEASES = 5;

/** Time for which the viewers of an exam share a reading, in milliseconds. Their pages read again every five seconds. */
export const VIEW_FRESH_MS = 2 * SECOND;

/** Opens a reader for a front door: the viewers of one exam share one reading. */
export function openExamReader(mongo: Mongo, now: Now): (examId: string) => Promise<Exam | null> {
  return shareRunsBy(VIEW_FRESH_MS, (examId: string) => readExam(mongo, examId, now()));
}

/** Reads the state of an exam. Returns null if neither an attempt nor a release of it is stored. */
export async function readExam(mongo: Mongo, examId: string, now: number): Promise<Exam | null> {
  const [newest, rows] = await Promise.all([newestAttempt(mongo, examId), newestReleases(mongo, examId)]);
  if (newest === null && rows.length === 0) return null;
  const [{ released, ...counts }, waiting, dead, shown] = await Promise.all([
    countAttempts(mongo, examId, now),
    countNotices(mongo, { 'body.examId': examId, status: 'PENDING' }, 'waiting_of_exam'),
    countNotices(mongo, { 'body.examId': examId, status: 'DEAD', letter: { $in: LISTED } }, 'dead_of_exam'),
    releaseViews(mongo, rows, now),
  ]);
  return {
    examId,
    at: new Date(now).toISOString(),
    title: newest?.exam.title ?? null,
    showResultMode: newest?.exam.showResultMode ?? null,
    closeTime: newest?.exam.closeTime?.toISOString() ?? null,
    newestStartAt: newest?.startedAt.toISOString() ?? null,
    ...counts,
    notices: { waiting, dead },
    results: { released, releases: shown },
  };
}

type Newest = Pick<Attempt, '_id' | 'startedAt'> & {
  exam: Pick<Attempt['exam'], 'title' | 'showResultMode' | 'closeTime'>;
};

function newestAttempt(mongo: Mongo, examId: string): Promise<Newest | null> {
  const projection = { startedAt: 1, 'exam.title': 1, 'exam.showResultMode': 1, 'exam.closeTime': 1 } as const;
  return attempts(mongo).findOne<Newest>({ examId }, { ...BOUND, projection, sort: { _id: -1 }, hint: 'of_exam' });
}

/** Totals of the attempts of one status. */
interface Totals {
  _id: AttemptStatus;
  total: number;
  late: number;
  withEssays: number;
  essays: number;
  released: number;
}

/** Counts the attempts of an exam. Reads only the index `of_exam_by_status`, no attempt. */
async function countAttempts(mongo: Mongo, examId: string, now: number) {
  const groups = await attempts(mongo)
    .aggregate<Totals>([{ $match: { examId } }, { $group: totalsAt(new Date(now)) }], {
      hint: 'of_exam_by_status',
      maxTimeMS: QUERY_LIMIT_MS * 4,
    })
    .toArray();
  const of = (status: AttemptStatus): Omit<Totals, '_id'> => groups.find(({ _id }) => _id === status) ?? NONE;
  const [open, submitted, graded] = [of('IN_PROGRESS'), of('SUBMITTED'), of('GRADED')];
  return {
    attempts: {
      total: open.total + submitted.total + graded.total,
      byStatus: { IN_PROGRESS: open.total, SUBMITTED: submitted.total, GRADED: graded.total },
    },
    late: { inProgress: open.late, submitted: submitted.late + graded.late },
    essays: { attempts: graded.withEssays, answers: graded.essays },
    released: open.released + submitted.released + graded.released,
  };
}

const NONE: Omit<Totals, '_id'> = { total: 0, late: 0, withEssays: 0, essays: 0, released: 0 };

/** Late as `lateSeconds` decides it. A null date is less than any other, so its absence is checked first. */
function totalsAt(now: Date): Document & { _id: string } {
  const isLate = {
    $cond: [
      { $eq: ['$status', 'IN_PROGRESS'] },
      { $lte: ['$deadlineAt', now] },
      { $gt: ['$submittedAt', '$deadlineAt'] },
    ],
  };
  return {
    _id: '$status',
    total: { $sum: 1 },
    late: { $sum: { $cond: [{ $and: [{ $ne: ['$deadlineAt', null] }, isLate] }, 1, 0] } },
    withEssays: { $sum: { $cond: [{ $gt: ['$pendingManualCount', 0] }, 1, 0] } },
    essays: { $sum: '$pendingManualCount' },
    released: { $sum: { $cond: ['$tally.released', 1, 0] } },
  };
}

function countNotices(mongo: Mongo, filter: Document, hint: string): Promise<number> {
  return mongo.db.collection(NOTICES).countDocuments(filter, { ...BOUND, hint, limit: MAX_NOTICES });
}

function newestReleases(mongo: Mongo, examId: string): Promise<StoredRelease[]> {
  return releases(mongo)
    .find({ examId }, { ...BOUND, projection: { studentIds: 0 }, sort: { number: -1 }, limit: MAX_RELEASES })
    .toArray();
}

const NO_CHANGES: ReleaseCounts = { updatedAttempts: 0, queuedNotifications: 0 };

async function releaseViews(mongo: Mongo, rows: readonly StoredRelease[], now: number): Promise<ExamRelease[]> {
  if (rows.length === 0) return [];
  const keys = rows.map(({ sourceEventId }) => releaseKey(sourceEventId));
  const commands = await mongo.db
    .collection<Command<unknown, ReleaseCounts | null, ReleaseCounts | null>>(COMMANDS)
    .find({ key: { $in: keys }, live: true }, BOUND)
    .toArray();
  return rows.map(({ sourceEventId, organizationId, releasedAt }) => {
    const command = commands.find(({ key }) => key === releaseKey(sourceEventId));
    const isLeased = (command?.lockedUntil?.getTime() ?? 0) > now;
    const result = command?.result ?? command?.progress ?? null;
    const counts = result === null || 'rejected' in result ? NO_CHANGES : result;
    return {
      sourceEventId,
      organizationId,
      releasedAt: releasedAt.toISOString(),
      state: releasedAt.getTime() > now ? 'AHEAD' : 'RELEASED',
      command: command === undefined ? null : command.status === 'PENDING' && isLeased ? 'LEASED' : command.status,
      updatedAttempts: counts.updatedAttempts,
      queuedNotifications: counts.queuedNotifications,
    };
  });
}
