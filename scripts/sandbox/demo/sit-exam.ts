import { isDeepStrictEqual } from 'node:util';
import {
  asStudent,
  countRequests,
  type Gateway,
  refusalOf,
  startAttempt,
  submitAttempt,
} from '#scripts/sandbox/gateway.ts';
import type { Step } from '#scripts/sandbox/school/answer-sheet.ts';
import { mathsExam, ORGANIZATION, TEACHER } from '#scripts/sandbox/school/paper.ts';
import type { Student } from '#scripts/sandbox/school/school.ts';
import type { Progress } from '#scripts/start/progress.ts';
import {
  type Answer,
  type AnswerConflict,
  type AttemptDetail,
  ExamhallError,
  type Identity,
  type StartQuestion,
} from '../../../clients/typescript/src/index.ts';

/** Record of one student's attempt: everything that the service acknowledged. Later readings are compared with it. */
export type Sitting = Awaited<ReturnType<typeof startSitting>>;

export interface DemoDeps {
  gateway: Gateway;
  progress: Progress;
  examId: string;
  /** Records a fault. The demo continues and fails at its end. */
  complain(fault: string): void;
}

export const THE_TEACHER: Identity = { id: TEACHER, role: 'TEACHER', organizationId: ORGANIZATION };

/** Returns a fault for each field of `wanted` that is shown with another value. `whose` names its owner, such as `the result's`. */
export function differences(whose: string, shown: object, wanted: object): string[] {
  const values: Readonly<Record<string, unknown>> = { ...shown };
  return Object.entries(wanted)
    .filter(([field, value]) => !isDeepStrictEqual(values[field], value))
    .map(
      ([field, value]) => `${whose} ${field} is ${JSON.stringify(values[field])}, expected ${JSON.stringify(value)}`,
    );
}

const DOUBLE_START_EVERY = 20;
const LOSE_START_EVERY = 30;

/** Starts a student's attempt, and checks that a second start returns the same attempt. */
export async function startSitting(
  { gateway, examId, complain }: DemoDeps,
  student: Student,
  index: number,
  questions: readonly StartQuestion[],
) {
  const start = { exam: mathsExam(examId), student, questions, key: `demo-${examId}-${student.id}` };
  const { attempt } = await startAttempt(gateway, start, index % LOSE_START_EVERY === 0);
  if (JSON.stringify(attempt).includes('answerKey')) complain(`start of ${student.id} shows the answer key`);
  if (attempt.questions.length !== questions.length) complain(`start of ${student.id} lacks questions`);
  if (index % DOUBLE_START_EVERY === 0) {
    const again = await startAttempt(gateway, { ...start, key: `${start.key}-other-tab` });
    if (again.attempt.id !== attempt.id || again.created) complain(`${student.id} has two attempts`);
  }
  return {
    student,
    attemptId: attempt.id,
    /** The last acknowledged answer to each question, and the server's version of it. */
    answers: new Map<string, Answer>(),
    versions: new Map<string, number>(),
    savesAcknowledged: 0,
    eventsAcknowledged: 0,
    timesAway: 0,
    /** Requests of saves and events that had no reply; each may have been stored. */
    actsInDoubt: 0,
    /** Points of the essay's handoff; null without one. */
    essayPoints: null as number | null,
    /** Times that the student sat: a reopened attempt has two. */
    rounds: 1,
    isVoid: false,
    /** Acts of the teacher that the log of the attempt has. */
    actsLogged: 0,
    /** The regrade that has changed the result; null without one. */
    regradeId: null as string | null,
  };
}

type Save = Extract<Step, { kind: 'save' }>;

/** Performs one step of a student's answer sheet and records acknowledged saves and events in the sitting. */
export async function takeStep(deps: DemoDeps, sitting: Sitting, step: Step): Promise<void> {
  if (step.kind === 'event') return postEvent(deps, sitting, step);
  await save(deps, sitting, step);
  if (step.mishap === 'stale tab') await saveFromStaleTab(deps, sitting, step);
}

async function postEvent({ gateway }: DemoDeps, sitting: Sitting, step: Extract<Step, { kind: 'event' }>) {
  const { attemptId, student } = sitting;
  const { type, metadata } = step;
  const requests = countRequests();
  await gateway.client('event').postEvent({
    attemptId,
    as: asStudent(student),
    body: { type, metadata },
    repeatInDoubt: true,
    observe: requests.observe,
  });
  sitting.eventsAcknowledged += 1;
  if (type === 'TAB_HIDDEN') sitting.timesAway += 1;
  sitting.actsInDoubt += requests.count() - 1;
}

/** Saves with the last version that the client saw. A conflict with its own save, whose reply was lost, then counts as acknowledged. */
async function save({ gateway, complain }: DemoDeps, sitting: Sitting, step: Save): Promise<void> {
  const requests = countRequests();
  const client = gateway.client('save', step.mishap === 'lost reply');
  const input = saveOf(sitting, step, versionOf(sitting, step), 'tab-1');
  try {
    const { answer: stored } = await client.saveAnswer({ ...input, observe: requests.observe });
    if (!isDeepStrictEqual(stored.answer, step.answer))
      complain(`${sitting.student.id}: the reply to a save shows another answer`);
    note(sitting, step, stored.serverVersion);
  } catch (error) {
    if (!(error instanceof ExamhallError) || error.status !== 409) throw error;
    const stored = error.code === 'ANSWER_VERSION_CONFLICT' ? (error.data as AnswerConflict).answer : undefined;
    // Accept the conflict only if the newer answer is this one: the request whose reply was lost was stored.
    if (stored === undefined || requests.count() === 1 || !isDeepStrictEqual(stored.answer, step.answer))
      return complain(`the save of ${step.questionId} by ${sitting.student.id} was refused: ${error.code}`);
    note(sitting, step, stored.serverVersion);
    // Exactly one request was stored, and `note` has counted it.
    sitting.actsInDoubt -= 1;
  } finally {
    sitting.actsInDoubt += requests.count() - 1;
  }
}

/** Saves from another tab with an outdated version. The reply must be a version conflict. */
async function saveFromStaleTab({ gateway, complain }: DemoDeps, sitting: Sitting, step: Save): Promise<void> {
  const stale = versionOf(sitting, step) - 1;
  if (stale < 1) return;
  const refused = await refusalOf(gateway.client('save').saveAnswer(saveOf(sitting, step, stale, 'tab-2')));
  if (refused?.status !== 409 || refused.code !== 'ANSWER_VERSION_CONFLICT')
    complain(`a stale save of ${sitting.student.id} got ${refused?.status ?? 200} ${refused?.code ?? ''}`);
}

function saveOf(
  { attemptId, student }: Sitting,
  { questionId, answer }: Save,
  clientVersion: number,
  sourceTabId: string,
) {
  return { attemptId, as: asStudent(student), body: { questionId, answer, clientVersion, sourceTabId } };
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

/**
 * Submits and waits for the grade, for some students twice at the same time, with a lost reply, or followed by a late save. Checks that no
 * reply shows the grade.
 */
export async function submitUntilGraded(deps: DemoDeps, sitting: Sitting, index: number): Promise<void> {
  const requests = [submitAttempt(deps.gateway, sitting, index % LOSE_SUBMIT_EVERY === 0)];
  if (index % DOUBLE_SUBMIT_EVERY === 0) requests.push(submitAttempt(deps.gateway, sitting));
  for (const detail of await Promise.all(requests)) checkHidden(deps, sitting, detail);
  if (index % LATE_SAVE_EVERY === 0) await saveTooLate(deps, sitting);
}

/** Checks that a submitted attempt is graded and that no part of the grade is visible before the release. */
function checkHidden({ complain }: DemoDeps, { student }: Sitting, detail: AttemptDetail): void {
  if (detail.status !== 'GRADED') complain(`submit of ${student.id} left ${detail.status}`);
  const shown = [detail.totalScore, detail.correctCount, detail.wrongCount, detail.pendingManualCount];
  const leaks =
    detail.resultVisible ||
    shown.some((value) => value !== null) ||
    detail.answers.some((answer) => answer.score !== null || answer.isCorrect !== null) ||
    detail.questions.some((question) => 'answerKey' in question);
  if (leaks) complain(`${student.id} sees a grade before the release`);
}

/** Saves after the submit. The reply must be 409 `ATTEMPT_LOCKED`. */
async function saveTooLate({ gateway, complain }: DemoDeps, { attemptId, student, answers }: Sitting): Promise<void> {
  const [first] = answers;
  if (first === undefined) return;
  const [questionId, answer] = first;
  const refused = await refusalOf(
    gateway.client('save too late').saveAnswer({ attemptId, as: asStudent(student), body: { questionId, answer } }),
  );
  if (refused?.status !== 409 || refused.code !== 'ATTEMPT_LOCKED')
    complain(`a save of ${student.id} after the submit got ${refused?.status ?? 200}`);
}
