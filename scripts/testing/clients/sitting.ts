import { randomUUID } from 'node:crypto';
import { type Cluster, TOKENS } from '#testing/processes/cluster.ts';
import { essay, numeric, startBody } from './attempt-client.ts';
import { retryOn503 } from './crowd.ts';
import { exchange, type HttpReply } from './http-call.ts';

/** The fields of an attempt's detail that the scenarios read. */
export interface Detail {
  id: string;
  status: 'IN_PROGRESS' | 'SUBMITTED' | 'GRADED';
  submittedBy: string | null;
  startedAt: string;
  deadlineAt: string | null;
  totalScore: number | null;
  resultVisible: boolean;
  serverTime: string;
  answers: { questionId: string; answer: { textAnswer?: string }; score: number | null; serverVersion: number }[];
  events: { type: string; metadata: Record<string, unknown> }[];
  eventCount: number;
}

export interface Started {
  attempt: Detail;
  created: boolean;
}

/** The exam of a scenario. Defaults: one question, one hour, assigned, results visible at once. */
export interface ExamPlan {
  examId: string;
  questions?: number;
  /** One more question of 5 points, graded by hand. */
  essay?: boolean;
  showResultMode?: 'IMMEDIATE' | 'AFTER_CLOSE' | 'MANUAL';
  durationMinutes?: number;
  closeTime?: Date | null;
  maxAttempts?: number | null;
  link?: { id: string; mode: 'LOGIN_REQUIRED' | 'GUEST_ALLOWED'; studentLimit?: number };
}

/** Returns a function that maps `n` to one of the first `doors` front doors of a cluster, in turn. */
export function doorsOf(cluster: Cluster, doors = 1): (n?: number) => string {
  return (n = 0) => cluster.door((n % doors) + 1).url;
}

/** Returns the body of a start with numeric questions q1, q2, … of one point each; the right answer of a question is its number. */
function bodyOf(plan: ExamPlan): object {
  const { questions = 1, link, durationMinutes = 60, showResultMode = 'IMMEDIATE' } = plan;
  const byNumber = Array.from({ length: questions }, (_, index) => numeric(`q${index + 1}`, [{ value: index + 1 }]));
  return startBody(plan.examId, {
    exam: {
      durationMinutes,
      showResultMode,
      maxAttempts: plan.maxAttempts ?? null,
      closeTime: plan.closeTime?.toISOString() ?? null,
    },
    access: { assigned: link === undefined, ...(link === undefined ? {} : { link: { active: true, ...link } }) },
    questions: plan.essay === true ? [...byNumber, essay()] : byNumber,
  });
}

/** One student. Each call names the front door that it goes to. */
export interface Student {
  readonly id: string;
  start(door: string, plan: ExamPlan, key?: string): Promise<HttpReply<Started>>;
  save(door: string, attemptId: string, save: SaveBody): Promise<HttpReply<Detail & { answer?: unknown }>>;
  submit(door: string, attemptId: string): Promise<HttpReply<Detail>>;
  timeout(door: string, attemptId: string): Promise<HttpReply<Detail>>;
  read(door: string, attemptId: string): Promise<HttpReply<Detail>>;
  /** Reads the whole event log. */
  log(door: string, attemptId: string): Promise<HttpReply<Detail['events']>>;
}

export interface SaveBody {
  questionId: string;
  text: string;
  clientVersion?: number;
}

/** Returns the calls of one student, by default of a new one. */
export function student(id: string = `student-${randomUUID()}`): Student {
  const headers = { 'x-user-id': id, 'x-user-role': 'STUDENT' };
  const post = <Data>(url: string, body: object) => exchange<Data>(url, { method: 'POST', headers, body });
  return {
    id,
    start: (door, plan, key = randomUUID()) =>
      exchange(`${door}/v1/exams/${plan.examId}/attempts`, {
        method: 'POST',
        headers: {
          ...headers,
          ...internal('api-gateway'),
          'x-exam-runtime-decision-source': 'exam-service',
          'idempotency-key': key,
        },
        body: bodyOf(plan),
      }),
    save: (door, attemptId, { questionId, text, clientVersion }) =>
      post(`${door}/v1/attempts/${attemptId}/answers`, {
        questionId,
        answer: { textAnswer: text },
        ...(clientVersion === undefined ? {} : { clientVersion }),
      }),
    submit: (door, attemptId) => post(`${door}/v1/attempts/${attemptId}/submit`, { source: 'STUDENT' }),
    timeout: (door, attemptId) => post(`${door}/v1/attempts/${attemptId}/events`, { type: 'TIMEOUT' }),
    read: (door, attemptId) => exchange(`${door}/v1/attempts/${attemptId}`, { headers }),
    log: (door, attemptId) => exchange(`${door}/v1/attempts/${attemptId}/events`, { headers }),
  };
}

/** Reads an attempt as its teacher, and repeats the call while the front door is busy. */
export function readAsTeacher(door: string, attemptId: string): Promise<HttpReply<Detail>> {
  const headers = { 'x-user-id': 'teacher-1', 'x-user-role': 'TEACHER' };
  return retryOn503(() => exchange(`${door}/v1/attempts/${attemptId}`, { headers }));
}

export interface ReleaseReply {
  updatedAttempts: number | null;
  queuedNotifications: number | null;
}

/** Releases the results of an exam as the exam service does. */
export function release(door: string, examId: string, sourceEventId: string): Promise<HttpReply<ReleaseReply>> {
  return exchange(`${door}/v1/events/exam-results-released`, {
    method: 'POST',
    headers: internal('exam-service'),
    body: {
      sourceService: 'exam-service',
      type: 'exam.results_released.v1',
      sourceEventId,
      examId,
      releasedAt: new Date().toISOString(),
    },
  });
}

/** Sends a handoff with a maximum of five points, as the AI classifier does. */
export function sendHandoff(
  door: string,
  attemptId: string,
  handoff: { sourceEventId: string; questionId: string; score: number },
): Promise<HttpReply<{ applied: boolean | null; attempt: Detail }>> {
  return exchange(`${door}/v1/attempts/${attemptId}/essay-grade-handoffs`, {
    method: 'POST',
    headers: internal('ai-classifier-service'),
    body: { sourceService: 'ai-classifier-service', type: 'ai.essay_grade.handoff.v1', ...handoff, maxScore: 5 },
  });
}

function internal(sender: string): Record<string, string> {
  return { 'x-internal-service': sender, 'x-internal-token': TOKENS.internal };
}

/** Starts an attempt and returns its id, for scenarios that begin after the start. @throws Error if the start is refused */
export async function started(who: Student, door: string, plan: ExamPlan): Promise<string> {
  const key = randomUUID();
  const reply = await retryOn503(() => who.start(door, plan, key));
  // 200: an earlier sending that was answered 503 had taken effect.
  if (reply.status !== 201 && reply.status !== 200)
    throw new Error(`start answered ${reply.status} ${reply.code} ${reply.message}`);
  return reply.data.attempt.id;
}
