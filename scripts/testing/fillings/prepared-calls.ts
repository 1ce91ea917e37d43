import {
  choice,
  essay,
  numeric,
  options,
  RELEASED,
  shortText,
  startBody,
  startHeaders,
  statements,
} from '#testing/clients/attempt-client.ts';
import { PASSWORD } from '#testing/clients/auth-client.ts';
import { callHttp, type HttpReply } from '#testing/clients/call.ts';
import { TOKENS } from '#testing/processes/cluster.ts';

type Json = Record<string, unknown>;

/** Makes the objects of one call. `example` is the body of the document, with ids of this call. */
type Prepare = (about: { url: string; n: number; place: string; example: Json }) => Promise<{
  params?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: unknown;
  afterwards?: () => Promise<unknown>;
}>;

/** Operations whose example alone is not accepted: they need an object, or a body that differs from place to place. */
export const PREPARED: Readonly<Record<string, Prepare>> = {
  startAttempt: async ({ url, n, place }) => {
    const { headers, body } = startOf(n, place);
    // Graded, it shows whether the worker can read it.
    const afterwards = async () => {
      const listed = await callHttp(url, 'GET', '/v1/student/attempts', { headers });
      const attemptId = listed.data?.[0]?.id;
      if (attemptId !== undefined) await submit(url, n, attemptId);
    };
    return { params: { examId: `exam-${n}` }, headers, body, afterwards };
  },
  saveAnswer: async ({ url, n, place }) => {
    const many = Array.from({ length: 100 }, (_, index) => `a-${index}`);
    const attempt = await started(url, n, [
      choice('choice', { options: options(...many), scoringRule: { mode: 'MANUAL' }, answerKey: null }),
      statements('group', [true, false, true, false]),
      shortText('text', ['hai đường thẳng song song']),
    ]);
    const [questionId, answer] = place.includes('statement')
      ? ['group', { statementAnswers: [{ statementId: 's1', value: true }] }]
      : place.includes('text')
        ? ['text', { textAnswer: 'a' }]
        : ['choice', { selectedOptionIds: ['a-0'] }];
    const body = place.startsWith('/answer') ? { questionId, answer } : { questionId, ...answer };
    return { ...attempt, body, afterwards: () => submit(url, n, attempt.params.attemptId) };
  },
  submitAttempt: ({ url, n }) => started(url, n),
  postEvent: ({ url, n }) => started(url, n),
  handOffGrade: async ({ url, n }) => {
    const { params, headers } = await started(url, n, [essay('q3')]);
    const body = { questionId: 'q3', answer: { textAnswer: 'Giả sử' } };
    await accepted(url, 'POST', `/v1/attempts/${params.attemptId}/answers`, { headers, body });
    await submit(url, n, params.attemptId);
    return { params };
  },
  releaseResults: async ({ url, n }) => {
    await submit(url, n, (await started(url, n)).params.attemptId);
    const event = { sourceEventId: `release-${n}`, examId: `exam-${n}`, releasedAt: new Date().toISOString() };
    return { body: { ...RELEASED, ...event } };
  },
  giveExtraTime: async ({ url, n }) => {
    await started(url, n);
    return { params: { examId: `exam-${n}` }, headers: examiner(n) };
  },
  submitAll: async ({ url, n }) => {
    await started(url, n);
    return { params: { examId: `exam-${n}` }, headers: examiner(n) };
  },
  reopenAttempt: async ({ url, n }) => {
    const { params } = await started(url, n);
    await submit(url, n, params.attemptId);
    return { params, headers: examiner(n) };
  },
  voidAttempt: async ({ url, n }) => ({ params: (await started(url, n)).params, headers: examiner(n) }),
  restoreAttempt: async ({ url, n }) => {
    const { params } = await started(url, n);
    const headers = examiner(n);
    await accepted(url, 'POST', `/v1/attempts/${params.attemptId}/void`, { headers, body: { reason: 'a mistake' } });
    return { params, headers };
  },
  createRegrade: async ({ url, n }) => {
    await started(url, n, [choice('q1'), numeric('q2', [{ value: 2 }])]);
    return { params: { examId: `exam-${n}` }, headers: examiner(n) };
  },
  applyRegrade: ({ url, n }) => previewed(url, n),
  discardRegrade: ({ url, n }) => previewed(url, n),
  login: async ({ url, n }) => {
    await registered(url, n);
    return { body: { email: emailOf(n), password: PASSWORD } };
  },
  refresh: async ({ url, n }) => ({ body: { refreshToken: (await registered(url, n)).refreshToken } }),
  logout: async ({ url, n }) => ({ body: { refreshToken: (await registered(url, n)).refreshToken } }),
  endOtherSessions: async ({ url, n }) => ({ headers: bearer((await registered(url, n)).accessToken) }),
  changePassword: async ({ url, n }) => ({
    headers: bearer((await registered(url, n)).accessToken),
    body: { currentPassword: PASSWORD, newPassword: 'cầu Trường Tiền sáu vài 1899' },
  }),
  // The provider of the example has no key here, and all other calls of models would go to it.
  saveProviderSettings: async () => ({ body: { provider: 'mock', model: 'mock-1', apiKeyRef: null, baseUrl: null } }),
  previewGeneration: async ({ place, example }) => ({
    body: place.startsWith('/referenceQuestionIds')
      ? { ...example, mode: 'similar', referenceQuestionIds: ['q1'] }
      : example,
  }),
  replayDeadLetters: ({ place }) => selectionFor(place),
  ackDeadLetters: ({ place }) => selectionFor(place),
  dropDeadLetters: ({ place }) => selectionFor(place),
  changeSubscription: async ({ url }) => ({ params: { id: await subscription(url) } }),
};

/** Returns the id of a subscription: their number is limited, so that calls share one. */
async function subscription(url: string): Promise<string> {
  const [path, headers] = ['/v1/ops/subscriptions', bearer(TOKENS.ops)];
  const [known] = (await accepted(url, 'GET', path, { headers })).data.subscriptions;
  if (known !== undefined) return known.id;
  const body = { url: 'https://school.example/events', types: ['attempt.graded'] };
  return (await accepted(url, 'POST', path, { headers, body })).data.subscription.id;
}

/** Returns the selection of dead letters that has the place: by their ids or by a filter. */
async function selectionFor(place: string): Promise<{ body: Json }> {
  const selection = place.startsWith('/ids') ? { ids: ['made-1'] } : { filter: { queue: 'grading' } };
  return { body: { ...selection, reason: 'the receiver is back' } };
}

/** Returns the header with the address of this call: no other comes from there. */
export function from(n: number): Record<string, string> {
  return { 'X-Forwarded-For': `198.${18 + ((n >> 16) % 2)}.${(n >> 8) % 256}.${n % 256}` };
}

const emailOf = (n: number) => `hs-${n}@truong.example`;
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const examiner = (n: number) => ({
  'X-User-Id': 'admin-1',
  'X-User-Role': 'ADMIN',
  'Idempotency-Key': `act-${n}`,
});

/** Returns the call about a regrade that was previewed. */
async function previewed(url: string, n: number) {
  await started(url, n, [choice('q1')]);
  const headers = { ...examiner(n), 'Idempotency-Key': `preview-${n}` };
  const body = { changes: [{ questionId: 'q1', award: 'FULL' }], reason: 'no option is right' };
  const { data } = await accepted(url, 'POST', `/v1/exams/exam-${n}/regrades`, { headers, body });
  return { params: { examId: `exam-${n}`, regradeId: data.regrade.id as string }, headers: examiner(n) };
}

const student = (n: number) => ({ 'X-User-Id': `person-${n}`, 'X-User-Role': 'STUDENT' });

async function registered(url: string, n: number): Promise<{ accessToken: string; refreshToken: string }> {
  const body = { email: emailOf(n), password: PASSWORD, fullName: 'Nguyễn Văn An' };
  return (await accepted(url, 'POST', '/v1/auth/register', { headers: from(n), body })).data;
}

/** Returns a start whose question has a member at the place, and answers that it grades. */
function startOf(n: number, place: string): { headers: Record<string, string>; body: Json } {
  const exam = { exam: { showResultMode: 'MANUAL' }, questions: [questionFor(place)] };
  if (!place.startsWith('/courseAttemptContext')) return { headers: student(n), body: startBody(`exam-${n}`, exam) };
  const courseAttemptContext = {
    courseId: 'course-1',
    courseQuizReferenceId: 'reference-1',
    lessonId: 'lesson-1',
    studentId: `person-${n}`,
    organizationId: 'org-1',
    validatedBy: 'course-service',
    validatedAt: '2026-05-04T03:31:00Z',
  };
  return {
    headers: { ...student(n), 'X-Course-Attempt-Context-Source': 'course-service' },
    body: startBody(`exam-${n}`, { ...exam, courseAttemptContext }),
  };
}

function questionFor(place: string): Json {
  if (place.includes('acceptedTexts')) return shortText('q', ['hai']);
  if (place.includes('numericAnswers')) return numeric('q', [{ value: 2, tolerance: 0 }]);
  if (place.includes('statements')) return statements('q', [true]);
  if (place.includes('ladder'))
    return statements('q', [true], { scoringRule: { mode: 'TRUE_FALSE_GROUP', ladder: [0, 1] } });
  // The ids of options are filled: no key may name them.
  if (place.startsWith('/questions/*/options'))
    return choice('q', { scoringRule: { mode: 'MANUAL' }, answerKey: null });
  return choice('q', { type: 'MULTIPLE_CHOICE', optionOrder: ['a', 'b', 'c'] });
}

/** Starts an attempt of this call's student, and returns the path's parameter and the headers of its next calls. */
async function started(url: string, n: number, questions: readonly Json[] = [choice('q1')]) {
  const body = startBody(`exam-${n}`, { exam: { showResultMode: 'MANUAL' }, questions });
  const headers = { ...student(n), ...startHeaders(`first-${n}`) };
  const reply = await accepted(url, 'POST', `/v1/exams/exam-${n}/attempts`, { headers, body });
  const attemptId: string = reply.data.attempt.id;
  return { params: { attemptId }, headers: student(n) };
}

function submit(url: string, n: number, attemptId: string): Promise<HttpReply> {
  return accepted(url, 'POST', `/v1/attempts/${attemptId}/submit`, { headers: student(n), body: {} });
}

/** Makes a call. @throws Error if it is refused */
async function accepted(...call: Parameters<typeof callHttp>): Promise<HttpReply> {
  const reply = await callHttp(...call);
  if (reply.status >= 300) throw new Error(`the call was refused: ${reply.status} ${reply.text.slice(0, 500)}`);
  return reply;
}
