import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { dataOf, type GatewayReply } from '#scripts/sandbox/gateway.ts';
import type { Step } from '#scripts/sandbox/school/answer-sheet.ts';
import { mathsExam } from '#scripts/sandbox/school/paper.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type { Answer, AttemptDetail, StartQuestion, StartReply, StartRequest } from '#shared/generated/attempt.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';

/** Every twentieth student starts twice. */
const DOUBLE_START_EVERY = 20;
/** Every thirtieth student loses the reply to the start. */
const LOSE_START_EVERY = 30;

/** Starts a student's attempt as the gateway does, and checks that a second start returns the same attempt. */
export async function startAttempt(
  deps: DemoDeps,
  student: Student,
  index: number,
  questions: readonly StartQuestion[],
): Promise<Sitting> {
  const key = `demo-${deps.examId}-${student.id}`;
  const first = await sendStart(deps, student, questions, key, index % LOSE_START_EVERY === 0);
  const { attempt } = first;
  if (JSON.stringify(attempt).includes('answerKey')) deps.complain(`start of ${student.id} shows the answer key`);
  if (attempt.questions.length !== questions.length) deps.complain(`start of ${student.id} lacks questions`);
  if (index % DOUBLE_START_EVERY === 0) {
    const again = await sendStart(deps, student, questions, `${key}-other-tab`, false);
    if (again.attempt.id !== attempt.id || again.created) deps.complain(`${student.id} has two attempts`);
  }
  return {
    student,
    attemptId: attempt.id,
    answers: new Map(),
    versions: new Map(),
    savesAcknowledged: 0,
    eventsAcknowledged: 0,
    actsInDoubt: 0,
    essayPoints: null,
  };
}

async function sendStart(
  deps: DemoDeps,
  student: Student,
  questions: readonly StartQuestion[],
  key: string,
  loseReply: boolean,
): Promise<StartReply> {
  const { fullName, studentCode, className, email } = student;
  const body: StartRequest = {
    exam: mathsExam(deps.examId),
    access: { assigned: true, attemptLimit: 1 },
    questions: [...questions],
    studentInfo: { fullName, studentCode, className, email },
  };
  const reply = await deps.gateway.send({
    name: 'start',
    method: 'POST',
    path: `/v1/exams/${deps.examId}/attempts`,
    caller: asStudent(student),
    headers: {
      'x-internal-service': 'api-gateway',
      'x-internal-token': deps.internalToken,
      'x-exam-runtime-decision-source': 'exam-service',
      'idempotency-key': key,
    },
    body,
    loseReply,
  });
  return dataOf<StartReply>('start', reply, 200, 201);
}

type Save = Extract<Step, { kind: 'save' }>;

/** Performs one step of a student's answer sheet and records acknowledged saves and events in the sitting. */
export async function takeStep(deps: DemoDeps, sitting: Sitting, step: Step): Promise<void> {
  if (step.kind === 'event') return postEvent(deps, sitting, step);
  await save(deps, sitting, step);
  if (step.mishap === 'stale tab') await saveFromStaleTab(deps, sitting, step);
}

async function postEvent(deps: DemoDeps, sitting: Sitting, { type, metadata }: Extract<Step, { kind: 'event' }>) {
  const reply = await deps.gateway.send({
    name: 'event',
    method: 'POST',
    path: `/v1/attempts/${sitting.attemptId}/events`,
    caller: asStudent(sitting.student),
    body: { type, metadata },
  });
  dataOf('event', reply, 201);
  sitting.eventsAcknowledged += 1;
  sitting.actsInDoubt += reply.sentTimes - 1;
}

/** Saves with the last version that the client saw. A conflict with its own save, whose reply was lost, then counts as acknowledged. */
async function save(deps: DemoDeps, sitting: Sitting, step: Save): Promise<void> {
  const lost = step.mishap === 'lost reply';
  const reply = await sendSave(deps, sitting, step.questionId, step.answer, versionOf(sitting, step), 'tab-1', lost);
  sitting.actsInDoubt += reply.sentTimes - 1;
  if (reply.status === 409) {
    const { code, data } = reply.envelope();
    const current = (data as { answer?: StoredAnswer } | undefined)?.answer;
    // Accept the conflict only if the newer answer is this one: the sending whose reply was lost was stored.
    if (
      reply.sentTimes === 1 ||
      code !== 'ANSWER_VERSION_CONFLICT' ||
      !isDeepStrictEqual(current?.answer, step.answer)
    ) {
      deps.complain(`the save of ${step.questionId} by ${sitting.student.id} was refused: ${code}`);
      return;
    }
    note(sitting, step, current?.serverVersion ?? 0);
    // Exactly one sending was stored, and `note` has counted it.
    sitting.actsInDoubt -= 1;
  } else {
    const detail = dataOf<AttemptDetail>('save', reply, 200);
    const stored = detail.answers.find((answer) => answer.questionId === step.questionId);
    if (!isDeepStrictEqual(stored?.answer, step.answer)) {
      deps.complain(`${sitting.student.id}: the reply to a save shows another answer`);
    }
    note(sitting, step, stored?.serverVersion ?? 0);
  }
}

/** Saves from another tab with an outdated version. The reply must be a version conflict. */
async function saveFromStaleTab(deps: DemoDeps, sitting: Sitting, step: Save): Promise<void> {
  const stale = versionOf(sitting, step) - 1;
  if (stale < 1) return;
  const reply = await sendSave(deps, sitting, step.questionId, step.answer, stale, 'tab-2', false);
  const { code } = reply.envelope();
  if (reply.status !== 409 || code !== 'ANSWER_VERSION_CONFLICT') {
    deps.complain(`a stale save of ${sitting.student.id} got ${reply.status} ${code ?? ''}`);
  }
}

interface StoredAnswer {
  answer: Answer;
  serverVersion: number;
}

function sendSave(
  deps: DemoDeps,
  sitting: Sitting,
  questionId: string,
  answer: Answer,
  clientVersion: number,
  sourceTabId: string,
  loseReply: boolean,
): Promise<GatewayReply> {
  return deps.gateway.send({
    name: 'save',
    method: 'POST',
    path: `/v1/attempts/${sitting.attemptId}/answers`,
    caller: asStudent(sitting.student),
    body: { questionId, answer, clientVersion, sourceTabId },
    loseReply,
  });
}

function note(sitting: Sitting, step: Save, version: number): void {
  sitting.answers.set(step.questionId, step.answer);
  sitting.versions.set(step.questionId, version);
  sitting.savesAcknowledged += 1;
}

function versionOf(sitting: Sitting, { questionId }: Save): number {
  return sitting.versions.get(questionId) ?? 0;
}

const DOUBLE_SUBMIT_EVERY = 12;
const LOSE_SUBMIT_EVERY = 17;
const LATE_SAVE_EVERY = 10;
const MAX_SENDINGS = 60;
const LATE_WAIT_MS = 500;

/**
 * Submits until the attempt is graded, for some students twice at the same time, with a lost reply, or followed by a late save.
 * Checks that no reply shows the grade.
 */
export async function submitUntilGraded(deps: DemoDeps, sitting: Sitting, index: number): Promise<void> {
  const requests = [submit(deps, sitting, index % LOSE_SUBMIT_EVERY === 0)];
  if (index % DOUBLE_SUBMIT_EVERY === 0) requests.push(submit(deps, sitting, false));
  for (const detail of await Promise.all(requests)) checkHidden(deps, sitting, detail);
  if (index % LATE_SAVE_EVERY === 0) await saveTooLate(deps, sitting);
}

async function submit(deps: DemoDeps, sitting: Sitting, loseReply: boolean): Promise<AttemptDetail> {
  for (let sending = 1; ; sending++) {
    const reply = await deps.gateway.send({
      name: 'submit → graded',
      method: 'POST',
      path: `/v1/attempts/${sitting.attemptId}/submit`,
      caller: asStudent(sitting.student),
      body: { source: 'STUDENT' },
      loseReply: loseReply && sending === 1,
    });
    const detail = dataOf<AttemptDetail>('submit', reply, 200, 202);
    if (reply.status === 200) return detail;
    // 202: the attempt is submitted and the worker is late. The next call waits for the same grading.
    if (sending === MAX_SENDINGS) throw new Error(`attempt ${sitting.attemptId} is still not graded`);
    await delay(LATE_WAIT_MS);
  }
}

/** Checks that a submitted attempt is graded and that no part of the grade is visible before the release. */
function checkHidden(deps: DemoDeps, { student }: Sitting, detail: AttemptDetail): void {
  if (detail.status !== 'GRADED') deps.complain(`submit of ${student.id} left ${detail.status}`);
  const shown = [detail.totalScore, detail.correctCount, detail.wrongCount, detail.pendingManualCount];
  const leaks =
    detail.resultVisible ||
    shown.some((value) => value !== null) ||
    detail.answers.some((answer) => answer.score !== null || answer.isCorrect !== null) ||
    detail.questions.some((question) => 'answerKey' in question);
  if (leaks) deps.complain(`${student.id} sees a grade before the release`);
}

/** Saves after the submit. The reply must be 409 `ATTEMPT_LOCKED`. */
async function saveTooLate(deps: DemoDeps, sitting: Sitting): Promise<void> {
  const [questionId] = sitting.answers.keys();
  if (questionId === undefined) return;
  const reply = await deps.gateway.send({
    name: 'save too late',
    method: 'POST',
    path: `/v1/attempts/${sitting.attemptId}/answers`,
    caller: asStudent(sitting.student),
    body: { questionId, answer: sitting.answers.get(questionId) },
  });
  if (reply.status !== 409 || reply.envelope().code !== 'ATTEMPT_LOCKED') {
    deps.complain(`a save of ${sitting.student.id} after the submit got ${reply.status}`);
  }
}
