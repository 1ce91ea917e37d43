import { setTimeout as delay } from 'node:timers/promises';
import { madeUpHandoff } from '#scripts/sandbox/demo/mark-essays.ts';
import { type Caller, dataOf } from '#scripts/sandbox/gateway.ts';
import { part } from '#scripts/sandbox/parts.ts';
import { answerSheet } from '#scripts/sandbox/school/answer-sheet.ts';
import { runtimeOf, type SeedExam } from '#scripts/sandbox/school/school.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type {
  Answer,
  AttemptDetail,
  HandoffReply,
  ReleaseReply,
  StartQuestion,
  StartReply,
  StartRequest,
} from '#shared/generated/attempt.ts';
import type { Filling } from './fill.ts';

/** Students who work at the same time: saves take most of the time, and more would only lengthen the queues. */
const AT_ONCE = 8;
/** Every third essay is graded; the others wait. */
const GRADES_EVERY = 3;
/** Calls of one route that answers 202 before the seed fails; each waits for the same command. */
const MAX_SENDINGS = 60;
const LATE_WAIT_MS = 500;

interface Seat {
  exam: SeedExam;
  student: Student;
  /** Position of the student in the class. */
  index: number;
}

/** Has every class sit its exams and leaves each exam in its state. Continues where an interrupted run ended. */
export async function sitExams(filling: Filling): Promise<void> {
  const { served, note, progress, school } = filling;
  if (!served.has('attempt')) {
    note('The cluster serves no `attempt`, so the school has no exams.');
    return;
  }
  const seats = school.exams.flatMap((exam) =>
    exam.classroom.students.map((student, index): Seat => ({ exam, student, index })),
  );
  await part(progress, 'exams', seats, (seat) => sit(filling, seat), AT_ONCE);
  const released = school.exams.filter(({ state }) => state === 'released');
  await part(progress, 'release results', released, (exam) => release(filling, exam), 1);
}

async function sit(filling: Filling, seat: Seat): Promise<void> {
  const { exam, student, index } = seat;
  const { attempt } = await start(filling, seat);
  const answers = answersOf(filling, seat);
  if (attempt.status === 'IN_PROGRESS') {
    const stored = new Set(attempt.answers.map(({ questionId }) => questionId));
    const missing = [...answers].filter(([questionId]) => !stored.has(questionId));
    for (const [questionId, answer] of missing) await save(filling, seat, { id: attempt.id, questionId, answer });
    if (exam.state !== 'running') await submit(filling, student, attempt.id);
  }
  const essay = exam.questions.find(({ type }) => type === 'ESSAY');
  if (essay !== undefined && index % GRADES_EVERY === 0) await gradeEssay(filling, attempt.id, { answers, essay });
}

/** Returns the last answer to each question. In a running exam the second half of the paper is still blank. */
function answersOf({ school }: Filling, { exam, student }: Seat): Map<string, Answer> {
  const { questions, state } = exam;
  const paper = state === 'running' ? questions.slice(0, Math.ceil(questions.length / 2)) : questions;
  const steps = answerSheet(student, paper, `${school.seed}:${exam.id}`);
  return new Map(steps.flatMap((step) => (step.kind === 'save' ? [[step.questionId, step.answer] as const] : [])));
}

function asStudent({ id }: Student): Caller {
  return { id, role: 'STUDENT' };
}

async function start({ gateway, internalToken, add }: Filling, { exam, student }: Seat): Promise<StartReply> {
  const { fullName, studentCode, className, email } = student;
  const body: StartRequest = {
    exam: runtimeOf(exam),
    access: { assigned: true, attemptLimit: 1 },
    questions: [...exam.questions],
    studentInfo: { fullName, studentCode, className, email },
  };
  const reply = await gateway.send({
    name: 'start',
    method: 'POST',
    path: `/v1/exams/${exam.id}/attempts`,
    caller: asStudent(student),
    headers: {
      'x-internal-service': 'api-gateway',
      'x-internal-token': internalToken,
      'x-exam-runtime-decision-source': 'exam-service',
      'idempotency-key': `seed-${exam.id}-${student.id}`,
    },
    body,
  });
  const started = dataOf<StartReply>('start', reply, 200, 201);
  if (reply.status === 201) add('attempts');
  return started;
}

interface Save {
  /** Id of the attempt. */
  id: string;
  questionId: string;
  answer: Answer;
}

async function save({ gateway, add }: Filling, { student }: Seat, { id, questionId, answer }: Save): Promise<void> {
  const reply = await gateway.send({
    name: 'save',
    method: 'POST',
    path: `/v1/attempts/${id}/answers`,
    caller: asStudent(student),
    body: { questionId, answer, clientVersion: 0, sourceTabId: 'seed' },
  });
  dataOf<AttemptDetail>('save', reply, 200);
  add('answers');
}

async function submit({ gateway, add }: Filling, student: Student, id: string): Promise<void> {
  await untilDone('submit', () =>
    gateway.send({
      name: 'submit',
      method: 'POST',
      path: `/v1/attempts/${id}/submit`,
      caller: asStudent(student),
      body: { source: 'STUDENT' },
    }),
  );
  add('submissions');
}

async function gradeEssay(
  { gateway, internalToken, add }: Filling,
  attemptId: string,
  { answers, essay }: { answers: Map<string, Answer>; essay: StartQuestion },
): Promise<void> {
  // A blank essay is graded already.
  if ((answers.get(essay.questionId)?.textAnswer ?? '').trim() === '') return;
  const body = madeUpHandoff({ attemptId, answers }, essay);
  const { applied } = await untilDone<HandoffReply>('essay grade', () =>
    gateway.send({
      name: 'essay grade',
      method: 'POST',
      path: `/v1/attempts/${attemptId}/essay-grade-handoffs`,
      headers: { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': internalToken },
      body,
    }),
  );
  if (applied === true) add('essay grades');
}

async function release({ gateway, internalToken, add }: Filling, exam: SeedExam): Promise<void> {
  const body = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: `seed-${exam.id}-released`,
    organizationId: exam.classroom.organizationId,
    examId: exam.id,
    releasedAt: new Date().toISOString(),
  };
  const { updatedAttempts } = await untilDone<ReleaseReply>('release', () =>
    gateway.send({
      name: 'release',
      method: 'POST',
      path: '/v1/events/exam-results-released',
      headers: { 'x-internal-service': 'exam-service', 'x-internal-token': internalToken },
      body,
    }),
  );
  if ((updatedAttempts ?? 0) > 0) add('releases');
}

/** Repeats a call while it answers 202: the worker is late, and the next call waits for the same command. Returns the data of the 200. */
async function untilDone<Data>(name: string, call: () => ReturnType<Filling['gateway']['send']>): Promise<Data> {
  for (let sending = 1; ; sending++) {
    const reply = await call();
    const data = dataOf<Data>(name, reply, 200, 202);
    if (reply.status === 200) return data;
    if (sending === MAX_SENDINGS) throw new Error(`${name} is still not done; do the workers of the cluster run?`);
    await delay(LATE_WAIT_MS);
  }
}
