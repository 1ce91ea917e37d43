import type { StartQuestion, StartReply, StartRequest } from '#shared/generated/attempt.ts';
import { dataOf } from './gateway.ts';
import { mathsExam } from './paper.ts';
import { asStudent, type DemoDeps, type Sitting } from './sitting.ts';
import type { Student } from './students.ts';

/** One in twenty presses the button twice, and one in thirty never sees the first reply. */
const DOUBLE_EVERY = 20;
const LOSE_EVERY = 30;

/** Starts a student's attempt as the gateway does, and checks that asking again starts nothing else. */
export async function startAttempt(
  deps: DemoDeps,
  student: Student,
  index: number,
  questions: readonly StartQuestion[],
): Promise<Sitting> {
  const key = `demo-${deps.examId}-${student.id}`;
  const first = await send(deps, student, questions, key, index % LOSE_EVERY === 0);
  const { attempt } = first;
  if (JSON.stringify(attempt).includes('answerKey')) deps.complain(`start of ${student.id} shows the answer key`);
  if (attempt.questions.length !== questions.length) deps.complain(`start of ${student.id} lacks questions`);
  if (index % DOUBLE_EVERY === 0) {
    const again = await send(deps, student, questions, `${key}-other-tab`, false);
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

async function send(
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
