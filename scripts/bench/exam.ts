import { randomUUID } from 'node:crypto';
import type { SaveBody } from '#shared/attempt/answer.ts';
import type { StartQuestion, StartRequest } from '#shared/generated/attempt.ts';
import { type HttpClient, TOKEN } from './stage.ts';

/** Number of questions of each type: the parts of the 2025 national mathematics paper, extended to forty questions. */
const CHOICES = 28;
const GROUPS = 4;
const NUMBERS = 8;

/** Returns the questions as the gateway would send them. */
export function questions(): StartQuestion[] {
  return Array.from({ length: CHOICES + GROUPS + NUMBERS }, (_, index) => ({
    questionId: `toan-${index + 1}`,
    contentText: `Câu ${index + 1}. Cho hàm số y = x³ − 3x² + ${index}. Hàm số đã cho đồng biến trên khoảng nào dưới đây?`,
    content: `<p>Câu ${index + 1}. Cho hàm số <math>y = x³ − 3x² + ${index}</math>. Hàm số đã cho đồng biến trên khoảng nào dưới đây?</p>`,
    ...kindOf(index),
  }));
}

function kindOf(index: number): Pick<StartQuestion, 'type' | 'score' | 'scoringRule' | 'options' | 'answerKey'> {
  if (index < CHOICES) {
    const options = ['A', 'B', 'C', 'D'].map((id) => ({ id, label: id, content: `(${id}; +∞)` }));
    return {
      type: 'SINGLE_CHOICE',
      score: 0.25,
      scoringRule: { mode: 'EXACT' },
      options,
      answerKey: { correctOptionIds: ['A'] },
    };
  }
  if (index < CHOICES + GROUPS) {
    const options = ['a', 'b', 'c', 'd'].map((id) => ({ id, label: id, content: `Mệnh đề ${id} đúng với mọi x` }));
    const statements = options.map(({ id }) => ({ statementId: id, value: id !== 'c' }));
    return {
      type: 'TRUE_FALSE_GROUP',
      score: 1,
      scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' },
      options,
      answerKey: { statements },
    };
  }
  return {
    type: 'NUMERIC',
    score: 0.5,
    scoringRule: { mode: 'NUMERIC' },
    options: [],
    answerKey: { numericAnswers: [{ value: 12.5 }] },
  };
}

/** Returns the body of a start at this exam, as the gateway would send it. */
export function startBody(examId: string): StartRequest {
  return {
    exam: {
      id: examId,
      organizationId: 'bench-school',
      title: 'Toán 12: đề thi thử tốt nghiệp 2025',
      subject: 'Toán',
      status: 'PUBLISHED',
      deliveryMode: 'ONLINE',
      durationMinutes: 90,
      showResultMode: 'IMMEDIATE',
      createdById: 'teacher-1',
      shuffleQuestions: true,
      shuffleOptions: true,
    },
    access: { assigned: true },
    questions: questions(),
  };
}

/** Returns the body of a save that answers the question at this index of the paper, rightly or wrongly. */
export function answerBody(index: number, right: boolean): SaveBody {
  const questionId = `toan-${index + 1}`;
  if (index < CHOICES) return { questionId, answer: { selectedOptionIds: [right ? 'A' : 'B'] } };
  if (index >= CHOICES + GROUPS) return { questionId, answer: { textAnswer: right ? '12,5' : '3' } };
  const statementAnswers = ['a', 'b', 'c', 'd'].map((statementId) => ({ statementId, value: right }));
  return { questionId, answer: { statementAnswers } };
}

/** Returns the identity headers of a student. */
export function studentHeaders(studentId: string): Record<string, string> {
  return { 'X-User-Id': studentId, 'X-User-Role': 'STUDENT' };
}

/** Returns the headers of a start as the gateway sends it. */
function startHeaders(studentId: string): Record<string, string> {
  return {
    ...studentHeaders(studentId),
    'Idempotency-Key': randomUUID(),
    'X-Internal-Service': 'api-gateway',
    'X-Internal-Token': TOKEN,
    'X-Exam-Runtime-Decision-Source': 'exam-service',
  };
}

/** Starts an attempt through the front door and returns its id. @throws Error if the start is refused */
export async function startOverHttp(client: HttpClient, examId: string, studentId: string): Promise<string> {
  const path = `/v1/exams/${examId}/attempts`;
  const reply = await client.request('POST', path, startHeaders(studentId), JSON.stringify(startBody(examId)));
  if (reply.status !== 201) throw new Error(`start: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  return JSON.parse(reply.body.toString()).data.attempt.id;
}
