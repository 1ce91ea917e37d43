import { randomUUID } from 'node:crypto';
import { checkedApi } from '#testing/doors/checked-api.ts';
import { type Cluster, TOKENS } from '#testing/processes/cluster.ts';
import type { HttpReply } from './call.ts';

type Json = Record<string, unknown>;
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface StartChange {
  exam?: Json;
  access?: Json;
  questions?: readonly Json[];
  studentInfo?: unknown;
  courseAttemptContext?: unknown;
}

export type Person = ReturnType<AttemptClient['as']>;

export type AttemptClient = Awaited<ReturnType<typeof attemptClient>>;

/** Returns a client of one of the cluster's front doors, counted from 1. Every reply is checked against the OpenAPI document. */
export async function attemptClient(cluster: Cluster, door = 1) {
  const call = await checkedApi((method, target, options) => cluster.request(method, target, { door, ...options }));
  /** Every reply body, with the role of its receiver and, in `about`, method, target and status. */
  const received: { role: string; about: string; text: string }[] = [];

  function as(role: string, id: string) {
    const who = { 'x-user-id': id, 'x-user-role': role };
    async function ask(method: string, target: string, body?: unknown, headers: Headers = {}): Promise<HttpReply> {
      const reply = await call(method, target, { headers: { ...who, ...headers }, body });
      received.push({ role, about: `${method} ${target} ${reply.status}`, text: reply.text });
      return reply;
    }
    return {
      id,
      get: (attemptId: string) => ask('GET', `/v1/attempts/${attemptId}`),
      events: (attemptId: string) => ask('GET', `/v1/attempts/${attemptId}/events`),
      result: (attemptId: string) => ask('GET', `/v1/attempts/${attemptId}/result`),
      list: () => ask('GET', '/v1/student/attempts'),
      summary: () => ask('GET', '/v1/admin/attempts/summary'),
      start: (
        examId: string,
        change?: StartChange,
        { key, headers, path = 'attempts' }: { key?: string; headers?: Headers; path?: string } = {},
      ) => ask('POST', `/v1/exams/${examId}/${path}`, startBody(examId, change), { ...startHeaders(key), ...headers }),
      save: (attemptId: string, body: unknown, headers?: Headers) =>
        ask('POST', `/v1/attempts/${attemptId}/answers`, body, headers),
      submit: (attemptId: string, body: unknown = { source: 'STUDENT' }) =>
        ask('POST', `/v1/attempts/${attemptId}/submit`, body),
      post: (attemptId: string, type: string, metadata?: unknown) =>
        ask('POST', `/v1/attempts/${attemptId}/events`, { type, metadata }),
    };
  }

  const student = (id = `student-${randomUUID()}`) => as('STUDENT', id);
  return {
    call,
    received,
    as,
    student,
    teacher: (id: string) => as('TEACHER', id),
    admin: (id = 'admin-1') => as('ADMIN', id),
    /** Starts an attempt for a new student and returns both. @throws Error if the start is refused */
    async sitting({ examId = newExamId(), ...change }: StartChange & { examId?: string } = {}) {
      const sitter = student();
      const reply = await sitter.start(examId, change);
      if (reply.status !== 201) throw new Error(`start answered ${reply.status}: ${reply.text}`);
      return { student: sitter, id: reply.data.attempt.id, attempt: reply.data.attempt };
    },
    sendHandoff: (attemptId: string, change: Json = {}, headers: Headers = {}) =>
      call('POST', `/v1/attempts/${attemptId}/essay-grade-handoffs`, {
        body: { ...handoffBody(), ...change },
        headers: { ...internal('ai-classifier-service'), ...headers },
      }),
    release: (body: Json, headers: Headers = {}) =>
      call('POST', '/v1/events/exam-results-released', {
        body: { ...RELEASED, ...body },
        headers: { ...internal('exam-service'), ...headers },
      }),
  };
}

/** Proves that a call comes from this service. */
export function internal(sender: string): Record<string, string> {
  return { 'x-internal-service': sender, 'x-internal-token': TOKENS.internal };
}

export function startHeaders(key: string = randomUUID()): Record<string, string> {
  const source = { 'x-exam-runtime-decision-source': 'exam-service', 'idempotency-key': key };
  return { ...internal('api-gateway'), ...source };
}

/** The constant fields of a release by the exam service. */
export const RELEASED = { sourceService: 'exam-service', type: 'exam.results_released.v1' };

/** Returns a new handoff of 4 of 5 points by the AI classifier. */
export function handoffBody(): Json {
  const source = { sourceService: 'ai-classifier-service', type: 'ai.essay_grade.handoff.v1' };
  return { ...source, sourceEventId: randomUUID(), questionId: 'essay', score: 4, maxScore: 5 };
}

export function newExamId(): string {
  return `exam-${randomUUID()}`;
}

/** Returns the body of a start: an assigned exam of one hour, one question of one point, results visible at once. `change` overrides fields. */
export function startBody(examId: string, change: StartChange = {}): Json {
  const { exam, access, questions, ...rest } = change;
  return {
    exam: {
      id: examId,
      organizationId: 'org-1',
      title: 'Toán 12',
      subject: 'Toán',
      gradeLevel: '12',
      status: 'PUBLISHED',
      deliveryMode: 'ONLINE',
      durationMinutes: 60,
      maxAttempts: null,
      openTime: null,
      closeTime: null,
      requiresAccessPassword: false,
      showResultMode: 'IMMEDIATE',
      shuffleQuestions: false,
      shuffleOptions: false,
      randomizePerAttempt: false,
      createdById: 'teacher-1',
      assignedClassroomIds: ['class-1'],
      resultViewerTeacherIds: ['teacher-2'],
      ...exam,
    },
    access: { assigned: true, attemptLimit: null, ...access },
    questions: questions ?? [choice('q1')],
    ...rest,
  };
}

/** Returns a single-choice question of one point with the options a, b and c; a is right. */
export function choice(questionId: string, change: Json = {}): Json {
  return {
    questionId,
    score: 1,
    type: 'SINGLE_CHOICE',
    content: '<p>?</p>',
    contentText: '?',
    options: options('a', 'b', 'c'),
    scoringRule: { mode: 'EXACT' },
    answerKey: { correctOptionIds: ['a'] },
    ...change,
  };
}

/** Returns a true/false group with the statements s1, s2, …. */
export function statements(questionId: string, values: readonly boolean[], change: Json = {}): Json {
  const ids = values.map((_, index) => `s${index + 1}`);
  return choice(questionId, {
    type: 'TRUE_FALSE_GROUP',
    options: options(...ids),
    scoringRule: { mode: 'TRUE_FALSE_GROUP' },
    answerKey: { statements: ids.map((statementId, index) => ({ statementId, value: values[index] })) },
    ...change,
  });
}

export function numeric(questionId: string, numericAnswers: readonly Json[], change: Json = {}): Json {
  return choice(questionId, { ...written('NUMERIC', { numericAnswers }), ...change });
}

export function shortText(questionId: string, acceptedTexts: readonly string[], change: Json = {}): Json {
  return choice(questionId, { ...written('SHORT_TEXT', { acceptedTexts }), ...change });
}

/** Returns an essay question of five points, which is graded by handoff. */
export function essay(questionId = 'essay', change: Json = {}): Json {
  return choice(questionId, { ...written('ESSAY'), score: 5, ...change });
}

function written(type: string, answerKey?: Json): Json {
  return { type, options: [], scoringRule: { mode: type }, answerKey };
}

export function options(...ids: string[]): Json[] {
  return ids.map((id) => ({ id, label: id.toUpperCase(), content: `option ${id}` }));
}

export function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
