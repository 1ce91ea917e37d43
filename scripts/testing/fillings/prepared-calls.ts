import { choice, essay, numeric, options, shortText, startBody, statements } from '#testing/clients/attempt-client.ts';
import { PASSWORD } from '#testing/clients/auth-client.ts';
import { callHttp, type HttpReply } from '#testing/clients/http-call.ts';
import { TOKENS } from '#testing/processes/cluster.ts';

type Json = Record<string, unknown>;

/** Makes the objects of one call. */
type Prepare = (about: { url: string; n: number; place: string }) => Promise<{
  params?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  /** Default: the example of the document. */
  body?: unknown;
  afterwards?: () => Promise<unknown>;
}>;

/** Operations whose example alone is not accepted: they need an object, or a body that differs from place to place. */
export const PREPARED: Readonly<Record<string, Prepare>> = {
  startAttempt: async ({ url, n, place }) => {
    const { params, headers, body } = startOf(n, place);
    // Graded, it shows whether the worker can read it.
    const afterwards = async () => {
      const listed = await callHttp(url, 'GET', '/v1/student/attempts', { headers });
      const attemptId = listed.data?.[0]?.id;
      if (attemptId !== undefined) await submit(url, n, attemptId);
    };
    return { params, headers, body, afterwards };
  },
  saveAnswer: async ({ url, n, place }) => {
    const attemptId = await started(url, n, [
      choice('choice', { options: options(...many('a')), scoringRule: { mode: 'MANUAL' }, answerKey: null }),
      statements('group', [true, false, true, false]),
      shortText('text', ['hai đường thẳng song song']),
    ]);
    const [questionId, answer] = place.includes('statement')
      ? ['group', { statementAnswers: [{ statementId: 's1', value: true }] }]
      : place.includes('text')
        ? ['text', { textAnswer: 'a' }]
        : ['choice', { selectedOptionIds: ['a-0'] }];
    const body = place.startsWith('/answer') ? { questionId, answer } : { questionId, ...answer };
    return { params: { attemptId }, headers: student(n), body, afterwards: () => submit(url, n, attemptId) };
  },
  submitAttempt: async ({ url, n }) => ({ params: { attemptId: await started(url, n) }, headers: student(n) }),
  postEvent: async ({ url, n }) => ({ params: { attemptId: await started(url, n) }, headers: student(n) }),
  handOffGrade: async ({ url, n }) => {
    const attemptId = await started(url, n, [essay('q3')]);
    const save = { headers: student(n), body: { questionId: 'q3', answer: { textAnswer: 'Giả sử' } } };
    await accepted(callHttp(url, 'POST', `/v1/attempts/${attemptId}/answers`, save));
    await submit(url, n, attemptId);
    return { params: { attemptId } };
  },
  releaseResults: async ({ url, n }) => {
    const attemptId = await started(url, n);
    await submit(url, n, attemptId);
    return {
      body: {
        sourceService: 'exam-service',
        type: 'exam.results_released.v1',
        sourceEventId: `release-${n}`,
        examId: `exam-${n}`,
        releasedAt: new Date().toISOString(),
      },
    };
  },
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
  previewGeneration: async ({ place }) => {
    const body = {
      subject: 'Toán',
      gradeLevel: 12,
      topic: 'Tích phân',
      questionType: 'SINGLE_CHOICE',
      difficulty: 'EASY',
      count: 1,
    };
    if (!place.startsWith('/referenceQuestionIds')) return { body: { mode: 'fresh', ...body } };
    return { body: { mode: 'similar', referenceQuestionIds: ['q1'], ...body } };
  },
  replayDeadLetters: async ({ place }) => ({ body: selectionFor(place) }),
  ackDeadLetters: async ({ place }) => ({ body: selectionFor(place) }),
  dropDeadLetters: async ({ place }) => ({ body: selectionFor(place) }),
  changeSubscription: async ({ url }) => ({ params: { id: await subscription(url) } }),
};

/** Returns the id of a subscription: their number is limited, so that calls share one. */
async function subscription(url: string): Promise<string> {
  const path = '/v1/ops/subscriptions';
  const headers = bearer(TOKENS.ops);
  const [known] = (await accepted(callHttp(url, 'GET', path, { headers }))).data.subscriptions;
  if (known !== undefined) return known.id;
  const body = { url: 'https://school.example/events', types: ['attempt.graded'] };
  return (await accepted(callHttp(url, 'POST', path, { headers, body }))).data.subscription.id;
}

/** Returns the selection of dead letters that has the place: by their ids or by a filter. */
function selectionFor(place: string): Json {
  const reason = 'the receiver is back';
  return place.startsWith('/ids') ? { ids: ['made-1'], reason } : { filter: { queue: 'grading' }, reason };
}

/** Returns the header with the address of this call: no other comes from there. */
export function from(n: number): Record<string, string> {
  return { 'X-Forwarded-For': `198.${18 + ((n >> 16) % 2)}.${(n >> 8) % 256}.${n % 256}` };
}

function emailOf(n: number): string {
  return `hs-${n}@truong.example`;
}

/** Registers the account of this call, and returns its tokens. */
async function registered(url: string, n: number): Promise<{ accessToken: string; refreshToken: string }> {
  const body = { email: emailOf(n), password: PASSWORD, fullName: 'Nguyễn Văn An' };
  const sent = callHttp(url, 'POST', '/v1/auth/register', { headers: from(n), body });
  return (await accepted(sent)).data;
}

function bearer(token: string): Record<string, string> {
  return { Authorization: `Bearer ${token}` };
}

function student(n: number): Record<string, string> {
  return { 'X-User-Id': `person-${n}`, 'X-User-Role': 'STUDENT' };
}

/** Returns a start whose question has a member at the place, and answers that it grades. */
function startOf(n: number, place: string) {
  const examId = `exam-${n}`;
  const marker = place.startsWith('/courseAttemptContext')
    ? { 'X-Course-Attempt-Context-Source': 'course-service' }
    : {};
  const course = {
    courseId: 'course-1',
    courseQuizReferenceId: 'reference-1',
    lessonId: 'lesson-1',
    studentId: `person-${n}`,
    organizationId: 'org-1',
    validatedBy: 'course-service',
    validatedAt: '2026-05-04T03:31:00Z',
  };
  const body = startBody(examId, {
    exam: { showResultMode: 'MANUAL' },
    questions: [questionFor(place)],
    ...(place.startsWith('/courseAttemptContext') ? { courseAttemptContext: course } : {}),
  });
  return { params: { examId }, headers: { ...student(n), ...marker }, body };
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

/** Starts an attempt of this call's student, and returns its id. @throws Error if the start is refused */
async function started(url: string, n: number, questions: readonly Json[] = [choice('q1')]): Promise<string> {
  const body = startBody(`exam-${n}`, { exam: { showResultMode: 'MANUAL' }, questions });
  const headers = {
    ...student(n),
    'X-Internal-Service': 'api-gateway',
    'X-Internal-Token': TOKENS.internal,
    'X-Exam-Runtime-Decision-Source': 'exam-service',
    'Idempotency-Key': `first-${n}`,
  };
  const reply = await accepted(callHttp(url, 'POST', `/v1/exams/exam-${n}/attempts`, { headers, body }));
  return reply.data.attempt.id;
}

function submit(url: string, n: number, attemptId: string): Promise<HttpReply> {
  return accepted(callHttp(url, 'POST', `/v1/attempts/${attemptId}/submit`, { headers: student(n), body: {} }));
}

async function accepted(sent: Promise<HttpReply>): Promise<HttpReply> {
  const reply = await sent;
  if (reply.status >= 300) throw new Error(`the call was refused: ${reply.status} ${reply.text.slice(0, 500)}`);
  return reply;
}

function many(name: string): string[] {
  return Array.from({ length: 100 }, (_, index) => `${name}-${index}`);
}
