import type { Document } from 'mongodb';
import { attempts, releases } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradingKey } from '#shared/attempt/commands.ts';
import { HIDDEN_REASONS, visibilityForStudent } from '#shared/attempt/visibility.ts';
import type { ExamAttempt, ExamAttemptList, ExamGrading, ExamResults } from '#shared/generated/operations.ts';
import type { Command } from '#shared/kernel/command.ts';
import { type ClusterFacts, commandReason } from '#shared/operations/command-reason.ts';
import { type ExamWalk, lateSeconds, walkCursor } from '#shared/operations/exam-walk.ts';
import { BOUND } from './reading.ts';

/** One page of a walk: after the attempt of the id `after`, or from the first one. */
export interface WantedPage extends ExamWalk {
  after: string | null;
  limit: number;
}

/** Fields of an attempt that operators see. Answers, keys, scores and texts stay in the database; of an answer, only its time is read. */
interface Row
  extends Pick<
    Attempt,
    | '_id'
    | 'studentId'
    | 'status'
    | 'attemptNumber'
    | 'startedAt'
    | 'deadlineAt'
    | 'submittedAt'
    | 'submittedBy'
    | 'pendingManualCount'
    | 'round'
    | 'voidedAt'
  > {
  exam: Pick<Attempt['exam'], 'showResultMode' | 'closeTime' | 'resultsReleasedAt'>;
  tally: Pick<Attempt['tally'], 'questions' | 'answers'>;
  lastSavedAt: Date | null;
}

const SEEN: Document = {
  studentId: 1,
  status: 1,
  attemptNumber: 1,
  startedAt: 1,
  deadlineAt: 1,
  submittedAt: 1,
  submittedBy: 1,
  pendingManualCount: 1,
  round: 1,
  voidedAt: 1,
  'exam.showResultMode': 1,
  'exam.closeTime': 1,
  'exam.resultsReleasedAt': 1,
  'tally.questions': 1,
  'tally.answers': 1,
  lastSavedAt: { $max: { $map: { input: { $objectToArray: '$answers' }, in: '$$this.v.updatedAt' } } },
};

/**
 * Reads a page of an exam's attempts, ascending by id. Returns null if nothing of the exam is stored.
 *
 * The id never changes and is unique, and so is the exam of an attempt. Each attempt that exists when a walk begins is therefore met exactly
 * once, whatever changes meanwhile. One that starts during the walk is met at most once. A walk over one status meets each attempt that keeps
 * the status.
 */
export async function readExamAttempts(
  mongo: Mongo,
  wanted: WantedPage,
  facts: Pick<ClusterFacts, 'now' | 'redis'>,
): Promise<ExamAttemptList | null> {
  const { after, limit } = wanted;
  const found = await pageRows(mongo, wanted);
  if (found.length === 0 && after === null && !(await isKnownExam(mongo, wanted.examId))) return null;
  const page = found.slice(0, limit);
  const last = page.at(-1);
  const gradings = await gradingsOf(mongo, page, facts);
  return {
    attempts: page.map((row) => rowView(row, gradings(row), facts.now)),
    nextCursor: last === undefined || found.length <= limit ? null : walkCursor(wanted, last._id),
  };
}

/** Returns the rows of the page, and one more if there is any. */
function pageRows(mongo: Mongo, { examId, status, student, after, limit }: WantedPage): Promise<Row[]> {
  const filter = {
    examId,
    ...(student === null ? {} : { studentId: student }),
    ...(status === null ? {} : { status }),
    ...(after === null ? {} : { _id: { $gt: after } }),
  };
  // A student has few attempts at an exam, so that their sort costs nothing.
  const hint = student !== null ? 'attempt_number_of_student' : status === null ? 'of_exam' : 'of_exam_by_status';
  return attempts(mongo)
    .find<Row>(filter, { ...BOUND, projection: SEEN, sort: { _id: 1 }, limit: limit + 1, hint })
    .toArray();
}

/** Returns whether an attempt or a release of the exam is stored. Exams themselves are stored by another service. */
async function isKnownExam(mongo: Mongo, examId: string): Promise<boolean> {
  const options = { ...BOUND, projection: { _id: 1 } };
  if ((await attempts(mongo).findOne({ examId }, { ...options, hint: 'of_exam' })) !== null) return true;
  return (await releases(mongo).findOne({ examId }, options)) !== null;
}

type Grading = Pick<ExamAttempt, 'grading' | 'reason'>;

/** Returns how far the grade of each row is. Reads the grading commands of submitted rows, by their keys. */
async function gradingsOf(
  mongo: Mongo,
  rows: readonly Row[],
  facts: Pick<ClusterFacts, 'now' | 'redis'>,
): Promise<(row: Row) => Grading> {
  const keys = rows.filter(({ status }) => status === 'SUBMITTED').map(gradingKey);
  if (keys.length === 0) return (row) => ({ grading: settledGrading(row), reason: null });
  const [workers, commands] = await Promise.all([
    liveWorkers(mongo, facts.now),
    mongo.db
      .collection<Command>(COMMANDS)
      .find({ key: { $in: keys }, live: true }, BOUND)
      .toArray(),
  ]);
  const byKey = new Map(commands.map((command) => [command.key, command as Command]));
  return (row) => {
    if (row.status !== 'SUBMITTED') return { grading: settledGrading(row), reason: null };
    const command = byKey.get(gradingKey(row));
    if (command === undefined) return { grading: 'WAITING', reason: null };
    const isLeased = (command.lockedUntil?.getTime() ?? 0) > facts.now;
    const open = isLeased ? 'RUNNING' : 'WAITING';
    return {
      grading: command.status === 'DEAD' ? 'DEAD' : open,
      reason: commandReason(command, { ...facts, workers }),
    };
  };
}

function settledGrading({ status, pendingManualCount }: Row): ExamGrading {
  if (status !== 'GRADED') return 'NOT_SUBMITTED';
  return (pendingManualCount ?? 0) > 0 ? 'ESSAYS_PENDING' : 'COMPLETE';
}

function rowView(row: Row, grading: Grading, now: number): ExamAttempt {
  const { _id: id, studentId, status, attemptNumber, startedAt, deadlineAt, submittedAt, submittedBy } = row;
  return {
    id,
    studentId,
    status,
    attemptNumber,
    startedAt: startedAt.toISOString(),
    deadlineAt: deadlineAt?.toISOString() ?? null,
    lastSavedAt: row.lastSavedAt?.toISOString() ?? null,
    submittedAt: submittedAt?.toISOString() ?? null,
    submittedBy,
    lateSeconds: lateSeconds(row, now),
    questions: row.tally.questions,
    answered: row.tally.answers,
    ...grading,
    pendingEssays: row.pendingManualCount ?? 0,
    results: resultsOf(row, now),
  };
}

const RESULTS: Readonly<Record<(typeof HIDDEN_REASONS)[keyof typeof HIDDEN_REASONS], ExamResults>> = {
  [HIDDEN_REASONS.inProgress]: 'NOT_SUBMITTED',
  [HIDDEN_REASONS.beingGraded]: 'NOT_GRADED',
  [HIDDEN_REASONS.untilClose]: 'WAITS_FOR_CLOSE',
  [HIDDEN_REASONS.untilRelease]: 'WAITS_FOR_RELEASE',
  [HIDDEN_REASONS.voided]: 'VOIDED',
};

function resultsOf(row: Row, now: number): ExamResults {
  const seen = visibilityForStudent(row, new Date(now));
  return seen.resultVisible ? 'VISIBLE' : RESULTS[seen.hiddenReason];
}
