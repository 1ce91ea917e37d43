// The part of the exam service: it decides who may sit an exam, copies the exam into a snapshot, and starts the attempt.
// Run it against `npm start`: one student sits the exam, and the last line is the score.
import { type AttemptDetail, type Client, createClient, ExamhallError, type StartRequest } from '@examhall/client';

/** Decision and snapshot for one student. A real service reads both from its own store. */
function snapshotOf(examId: string): StartRequest {
  return {
    exam: {
      id: examId,
      title: 'Kiểm tra 15 phút – Toán 12',
      status: 'PUBLISHED',
      durationMinutes: 15,
      showResultMode: 'IMMEDIATE',
      createdById: 'teacher-1',
    },
    access: { assigned: true, attemptLimit: 1 },
    questions: [
      {
        questionId: 'q1',
        type: 'SINGLE_CHOICE',
        score: 4,
        content: '<p>2x + 1 = 7</p>',
        options: [
          { id: 'a', label: 'A', content: 'x = 2' },
          { id: 'b', label: 'B', content: 'x = 3' },
        ],
        scoringRule: { mode: 'EXACT' },
        answerKey: { correctOptionIds: ['b'] },
      },
      {
        questionId: 'q2',
        type: 'NUMERIC',
        score: 6,
        content: '<p>1/4 = ?</p>',
        scoringRule: { mode: 'NUMERIC' },
        answerKey: { numericAnswers: [{ value: 0.25 }] },
      },
    ],
  };
}

/** Starts the attempt of a student, or returns the open one. The client repeats a lost request with the same key. */
export async function startExam(student: Client<'as' | 'service'>, examId: string): Promise<AttemptDetail> {
  const headers = { 'x-exam-runtime-decision-source': 'exam-service' } as const;
  const { attempt } = await student.startAttempt({ examId, headers, body: snapshotOf(examId) });
  return attempt;
}

/** Answers both questions, submits, and returns the score; null if the grade has not come within the deadline. */
export async function sitExam(student: Client<'as' | 'service'>, examId: string): Promise<number | null> {
  const { id: attemptId } = await startExam(student, examId);
  await student.saveAnswer({ attemptId, body: { questionId: 'q1', answer: { selectedOptionIds: ['b'] } } });
  await student.saveAnswer({ attemptId, body: { questionId: 'q2', answer: { textAnswer: '0,25' } } });
  const outcome = await student.submitAttempt({ attemptId, deadlineMs: 30_000 });
  return outcome.done ? outcome.data.totalScore : null;
}

if (import.meta.main) {
  const { EXAMHALL_URL = 'http://127.0.0.1:3000', INTERNAL_SERVICE_TOKEN = 'dev-internal-token' } = process.env;
  const student = createClient({ baseUrl: EXAMHALL_URL, gatewayToken: process.env.GATEWAY_TOKEN }).with({
    service: { name: 'api-gateway', token: INTERNAL_SERVICE_TOKEN },
    as: { id: process.argv[2] ?? 'student-1', role: 'STUDENT' },
  });
  try {
    console.log(`score: ${await sitExam(student, 'toan-12')}`);
  } catch (error) {
    if (!(error instanceof ExamhallError)) throw error;
    console.error(`${error.code} (request ${error.requestId}): ${error.message}`);
    process.exitCode = 1;
  }
}
