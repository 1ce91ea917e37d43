import {
  asStudent,
  handOffGrade,
  madeUpHandoff,
  releaseResults,
  startAttempt,
  submitAttempt,
} from '#scripts/sandbox/gateway.ts';
import { answerSheet } from '#scripts/sandbox/school/answer-sheet.ts';
import type { Student } from '#scripts/sandbox/school/school.ts';
import { runtimeOf, type SeedExam } from '#scripts/sandbox/school/school.ts';
import { runPart } from '#scripts/start/progress.ts';
import type { Answer } from '../../../clients/typescript/src/index.ts';
import type { Filling } from './people.ts';

/** Students who work at the same time: saves take most of the time, and more would only lengthen the queues. */
const AT_ONCE = 8;
/** Every third essay is graded; the others wait. */
const GRADES_EVERY = 3;

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
  await runPart(progress, 'exams', seats, (seat) => sit(filling, seat), AT_ONCE);
  const released = school.exams.filter(({ state }) => state === 'released');
  await runPart(progress, 'release results', released, (exam) => release(filling, exam), 1);
}

async function sit(filling: Filling, seat: Seat): Promise<void> {
  const { gateway, add } = filling;
  const { exam, student, index } = seat;
  const { questions, state } = exam;
  const start = { exam: runtimeOf(exam), student, questions, key: `seed-${exam.id}-${student.id}` };
  const { attempt, created } = await startAttempt(gateway, start);
  if (created) add('attempts');

  const answers = answersOf(filling, seat);
  if (attempt.status === 'IN_PROGRESS') {
    const stored = new Set(attempt.answers.map(({ questionId }) => questionId));
    for (const [questionId, answer] of answers) {
      if (stored.has(questionId)) continue;
      const body = { questionId, answer, clientVersion: 0, sourceTabId: 'seed' };
      await gateway.client('save').saveAnswer({ attemptId: attempt.id, as: asStudent(student), body });
      add('answers');
    }
    if (state !== 'running') {
      await submitAttempt(gateway, { attemptId: attempt.id, student });
      add('submissions');
    }
  }

  const essay = questions.find(({ type }) => type === 'ESSAY');
  if (essay === undefined || index % GRADES_EVERY !== 0) return;
  const text = answers.get(essay.questionId)?.textAnswer ?? '';
  // A blank essay is graded already.
  if (text.trim() === '') return;
  const { applied } = await handOffGrade(gateway, attempt.id, madeUpHandoff(attempt.id, text, essay));
  if (applied === true) add('essay grades');
}

/** Returns the last answer to each question. In a running exam the second half of the paper is still blank. */
function answersOf({ school }: Filling, { exam, student }: Seat): Map<string, Answer> {
  const { questions, state } = exam;
  const paper = state === 'running' ? questions.slice(0, Math.ceil(questions.length / 2)) : questions;
  const steps = answerSheet(student, paper, `${school.seed}:${exam.id}`);
  return new Map(steps.flatMap((step) => (step.kind === 'save' ? [[step.questionId, step.answer] as const] : [])));
}

async function release({ gateway, add }: Filling, exam: SeedExam): Promise<void> {
  const { updatedAttempts } = await releaseResults(gateway, {
    sourceEventId: `seed-${exam.id}-released`,
    organizationId: exam.classroom.organizationId,
    examId: exam.id,
    releasedAt: new Date().toISOString(),
  });
  if ((updatedAttempts ?? 0) > 0) add('releases');
}
