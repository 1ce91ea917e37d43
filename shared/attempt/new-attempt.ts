import { hash } from 'node:crypto';
import { instantOf } from '#shared/kernel/time.ts';
import { type Attempt, type CourseContext, deadlineOf, type ExamSnapshot } from './attempt.ts';
import { maxScoreOf } from './correction.ts';
import { attemptEvent, startMetadata } from './events.ts';
import type { Paper } from './question.ts';
import type { StartBody, StartExam } from './start-body.ts';
import type { StartPlan } from './start-rules.ts';

/** Facts that the caller supplies because the rules of a start are pure: ids, the time, counts and earlier decisions. */
interface NewAttemptFacts {
  attemptId: string;
  studentId: string;
  attemptNumber: number;
  startKey: string;
  /** The header that carried the key, for the START event. */
  idempotencyHeader: string;
  paperId: string;
  paper: Paper;
  plan: StartPlan;
  courseContext: CourseContext | null;
  /** Number of the exam's newest release when the start was decided, or 0. */
  releasesSeen: number;
  seed: string;
  now: Date;
}

/** Returns the attempt as it is first stored, with its START event. Only `studentInfo` is copied whole from the body. */
export function newAttempt(body: StartBody, facts: NewAttemptFacts): Attempt {
  const { attemptId, now, paper, plan } = facts;
  const exam = examSnapshot(body.exam);
  const accessLinkId = plan.link?.id ?? null;
  const start = startMetadata({ accessLinkId, idempotencyHeader: facts.idempotencyHeader });
  return {
    _id: attemptId,
    v: 1,
    examId: body.exam.id,
    studentId: facts.studentId,
    organizationId: body.exam.organizationId ?? null,
    accessLinkId,
    attemptNumber: facts.attemptNumber,
    status: 'IN_PROGRESS',
    startedAt: now,
    submittedAt: null,
    deadlineAt: deadlineOf({
      startedAt: now,
      durationMinutes: exam.durationMinutes,
      closeTime: exam.closeTime,
      assignmentDueAt: plan.dueAt,
    }),
    durationSeconds: null,
    submittedBy: null,
    startKeys: [facts.startKey],
    studentInfo: body.studentInfo == null ? null : JSON.stringify(body.studentInfo),
    courseContext: facts.courseContext,
    exam,
    scope: {
      createdById: body.exam.createdById ?? null,
      assignedClassroomIds: [...(body.exam.assignedClassroomIds ?? [])],
      resultViewerTeacherIds: [...(body.exam.resultViewerTeacherIds ?? [])],
    },
    paperId: facts.paperId,
    order: questionOrder(body.exam, paper, facts.seed),
    optionOrders: optionOrders(body.exam, paper, facts.seed),
    seed: facts.seed,
    maxScore: maxScoreOf(paper),
    answers: {},
    events: [attemptEvent(1, 'START', start, now)],
    eventSeq: 1,
    clientEvents: 0,
    answerBytes: 0,
    releasesSeen: facts.releasesSeen,
    releaseEventId: null,
    totalScore: null,
    correctCount: null,
    wrongCount: null,
    pendingManualCount: null,
    tally: {
      linked: accessLinkId !== null,
      keyed: true,
      scored: false,
      released: exam.resultsReleasedAt !== null,
      questions: paper.questions.length,
      answers: 0,
      graded: 0,
    },
    startLimits: {
      attempts: plan.limit,
      scope: plan.limitScope,
      guests: plan.link?.mode === 'GUEST_ALLOWED',
      seats: plan.seatLimit,
    },
    stamp: attemptId,
  };
}

function examSnapshot(exam: StartExam): ExamSnapshot {
  return {
    title: exam.title ?? '',
    subject: exam.subject ?? null,
    gradeLevel: exam.gradeLevel ?? null,
    status: exam.status,
    durationMinutes: exam.durationMinutes ?? null,
    showResultMode: exam.showResultMode,
    closeTime: instantOf(exam.closeTime),
    resultsReleasedAt: instantOf(exam.resultsReleasedAt),
  };
}

function questionOrder(exam: StartExam, paper: Paper, seed: string): number[] {
  const shuffles = exam.shuffleQuestions === true || exam.randomizePerAttempt === true;
  if (shuffles) return shuffledPositions(paper.questions.length, `${seed}:questions`);
  return paper.questions.map((_, index) => index);
}

/** Returns the shuffled option order of each question, or [] if the exam does not shuffle options. */
function optionOrders(exam: StartExam, paper: Paper, seed: string): number[][] {
  if (exam.shuffleOptions !== true) return [];
  return paper.questions.map((question, index) =>
    shuffledPositions(question.options.length, `${seed}:options:${index}`),
  );
}

/**
 * Returns `0 … length − 1` in an order that depends on the seed only. It uses Fisher–Yates with our own generator, because an
 * attempt's order must be the same on every process and every version of Node.
 */
export function shuffledPositions(length: number, seed: string): number[] {
  const next = generator(seed);
  const positions = Array.from({ length }, (_, position) => position);
  for (let last = length - 1; last > 0; last -= 1) {
    const other = Math.floor(next() * (last + 1));
    const kept = positions[last] as number;
    positions[last] = positions[other] as number;
    positions[other] = kept;
  }
  return positions;
}

/**
 * Returns a generator of numbers in [0, 1): sfc32, whose state is 128 bits of SHA-256 over the seed. A student often knows how the options
 * of a question were shuffled. From that, a computer finds a state of 32 bits within hours, and with it the authored order of the questions.
 */
function generator(seed: string): () => number {
  const digest = hash('sha256', seed, 'buffer');
  let [a, b, c, d] = [digest.readInt32BE(0), digest.readInt32BE(4), digest.readInt32BE(8), digest.readInt32BE(12)];
  return () => {
    const sum = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    c |= 0;
    return (sum >>> 0) / 4_294_967_296;
  };
}
