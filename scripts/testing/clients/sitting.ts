import { randomUUID } from 'node:crypto';
import type { Cluster } from '#testing/processes/cluster.ts';
import { essay, handoffBody, internal, numeric, RELEASED, startBody, startHeaders } from './attempt-client.ts';
import { exchange, type HttpReply, retryOn503 } from './call.ts';

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

export type Student = ReturnType<typeof student>;

/** Returns the calls of one student, by default of a new one. Each call names the front door that it goes to. */
export function student(id: string = `student-${randomUUID()}`) {
  const headers = { 'x-user-id': id, 'x-user-role': 'STUDENT' };
  const post = <Data = Detail>(url: string, body: object, more: object = {}) =>
    exchange<Data>(url, { method: 'POST', headers: { ...headers, ...more }, body });
  return {
    id,
    start: (door: string, plan: ExamPlan, key?: string) =>
      post<Started>(`${door}/v1/exams/${plan.examId}/attempts`, bodyOf(plan), startHeaders(key)),
    save: (door: string, attemptId: string, save: { questionId: string; text: string; clientVersion?: number }) => {
      const { text, ...rest } = save;
      const body = { ...rest, answer: { textAnswer: text } };
      return post<Detail & { answer?: unknown }>(`${door}/v1/attempts/${attemptId}/answers`, body);
    },
    submit: (door: string, attemptId: string) => post(`${door}/v1/attempts/${attemptId}/submit`, { source: 'STUDENT' }),
    timeout: (door: string, attemptId: string) => post(`${door}/v1/attempts/${attemptId}/events`, { type: 'TIMEOUT' }),
    read: (door: string, attemptId: string) => exchange<Detail>(`${door}/v1/attempts/${attemptId}`, { headers }),
    log: (door: string, attemptId: string) =>
      exchange<Detail['events']>(`${door}/v1/attempts/${attemptId}/events`, { headers }),
  };
}

/** Submits an attempt as its teacher. A repeat has the same key. */
export function handIn(door: string, attemptId: string, key: string): Promise<HttpReply<Detail>> {
  const headers = { 'x-user-id': 'teacher-1', 'x-user-role': 'TEACHER', 'idempotency-key': key };
  const body = { source: 'TEACHER', reason: 'the fire alarm' };
  return exchange(`${door}/v1/attempts/${attemptId}/submit`, { method: 'POST', headers, body });
}

/** Reads an attempt as its teacher, and repeats the call while the front door is busy. */
export function readAsTeacher(door: string, attemptId: string): Promise<HttpReply<Detail>> {
  const headers = { 'x-user-id': 'teacher-1', 'x-user-role': 'TEACHER' };
  return retryOn503(() => exchange(`${door}/v1/attempts/${attemptId}`, { headers }));
}

export function release(door: string, examId: string, sourceEventId: string) {
  return exchange<{ updatedAttempts: number | null; queuedNotifications: number | null }>(
    `${door}/v1/events/exam-results-released`,
    {
      method: 'POST',
      headers: internal('exam-service'),
      body: { ...RELEASED, sourceEventId, examId, releasedAt: new Date().toISOString() },
    },
  );
}

/** Sends a handoff with a maximum of five points, as the AI classifier does. */
export function sendHandoff(
  door: string,
  attemptId: string,
  handoff: { sourceEventId: string; questionId: string; score: number },
) {
  return exchange<{ applied: boolean | null; attempt: Detail }>(
    `${door}/v1/attempts/${attemptId}/essay-grade-handoffs`,
    { method: 'POST', headers: internal('ai-classifier-service'), body: { ...handoffBody(), ...handoff } },
  );
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
