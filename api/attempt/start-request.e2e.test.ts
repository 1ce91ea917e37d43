import { randomUUID } from 'node:crypto';
import t from 'tap';
import { attemptClient, choice, newExamId, options, startBody } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, workers: [] });
const client = await attemptClient(cluster);
const TRUST = { 'x-internal-service': 'api-gateway', 'x-internal-token': cluster.tokens.internal };
const TRUSTED = { ...TRUST, 'x-exam-runtime-decision-source': 'exam-service' };

function link(id: string, change: object = {}) {
  return { assigned: false, link: { id, mode: 'LOGIN_REQUIRED', active: true, expiresAt: null, ...change } };
}

t.test('a refusal for want of access names the unknown members of the access, and no other start does', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const named = async (access: object, exam = {}) => {
    const { status, json } = await student.start(examId, { access: { ...access }, exam });
    return [status, json.code, json.details];
  };
  const unknown = (...paths: string[]) => paths.map((path) => ({ path, message: 'is not a known field' }));
  const accessLink = link('l-1').link;
  t.strictSame(await named({ assigned: false, accessLink, 'a/b': null, isAssigned: true }), [
    403,
    'EXAM_ACCESS_DENIED',
    unknown('/access/accessLink', '/access/a~1b', '/access/isAssigned'),
  ]);
  t.strictSame(await named({ assigned: false, constructor: 1 }), [
    403,
    'EXAM_ACCESS_DENIED',
    unknown('/access/constructor'),
  ]);
  t.strictSame(await named({ assigned: false }), [403, 'EXAM_ACCESS_DENIED', undefined]);
  t.strictSame(await named({ verified: true }, { requiresAccessPassword: true }), [
    403,
    'EXAM_PASSWORD_REQUIRED',
    unknown('/access/verified'),
  ]);
  t.strictSame(await named({ accessLink }, { status: 'DRAFT' }), [409, 'EXAM_NOT_PUBLISHED', undefined]);
  const admitted = await student.start(examId, { access: { assigned: true, accessLink, source: 'x\u0000' } });
  t.strictSame([admitted.status, Object.keys(admitted.data).sort()], [201, ['attempt', 'created']]);
  const stored = await cluster.mongo.collection('attempts').findOne({ 'exam.id': examId });
  t.notMatch(JSON.stringify(stored), '"accessLink"', 'none of them is stored');
});

t.test('a start runs its checks in their order, each with its code', async (t) => {
  const examId = newExamId();
  const ask = (headers: Record<string, string | readonly string[]>, body: unknown = '{') =>
    client.call('POST', `/v1/exams/${examId}/attempts`, { headers, body });
  const student = { 'x-user-id': 'student-order', 'x-user-role': 'STUDENT' };
  const key = { 'idempotency-key': 'order-1' };

  for (const [name, headers] of Object.entries({
    'no token': { 'x-internal-service': 'api-gateway', 'x-exam-runtime-decision-source': 'exam-service' },
    'a wrong token': { ...TRUSTED, 'x-internal-token': 'wrong' },
    'an empty token': { ...TRUSTED, 'x-internal-token': '' },
    'the token twice': { ...TRUSTED, 'x-internal-token': [cluster.tokens.internal, cluster.tokens.internal] },
    'another sender': { ...TRUSTED, 'x-internal-service': 'exam-service' },
    'no decision source': TRUST,
    'another decision source': { ...TRUST, 'x-exam-runtime-decision-source': 'api-gateway' },
  })) {
    t.match(await ask(headers), { status: 403, json: { code: 'ATTEMPT_START_UNTRUSTED' } }, name);
  }
  for (const [name, headers] of Object.entries({
    'no identity': {},
    'no role': { 'x-user-id': 'student-order' },
    'no id': { 'x-user-role': 'STUDENT' },
    'a malformed id': { ...student, 'x-user-id': 'two words' },
    'too long an id': { ...student, 'x-user-id': 'x'.repeat(129) },
    'the id twice': { ...student, 'x-user-id': ['student-order', 'student-order'] },
    'the role twice': { ...student, 'x-user-role': ['STUDENT', 'STUDENT'] },
  })) {
    t.match(await ask({ ...TRUSTED, ...headers }), { status: 401, json: { code: 'UNAUTHENTICATED' } }, name);
  }
  for (const role of ['TEACHER', 'PARENT', 'ADMIN', 'student', 'Student', 'OTHER']) {
    const reply = await ask({ ...TRUSTED, ...student, 'x-user-role': role });
    t.match(reply, { status: 403, json: { code: 'FORBIDDEN' } }, role);
  }
  for (const [name, headers] of Object.entries({
    none: {},
    empty: { 'idempotency-key': '' },
    'too long': { 'idempotency-key': 'k'.repeat(256) },
    'not ASCII': { 'idempotency-key': 'kh\u00f3a' },
    twice: { 'idempotency-key': ['one', 'two'] },
    'malformed before a good one': { 'idempotency-key': 'kh\u00f3a', 'x-correlation-id': 'good' },
  })) {
    const reply = await ask({ ...TRUSTED, ...student, ...headers });
    t.match(reply, { status: 400, json: { code: 'IDEMPOTENCY_KEY_REQUIRED' } }, `key ${name}`);
  }
  const trusted = { ...TRUSTED, ...student, ...key };
  t.match(await ask({ ...trusted, 'content-type': 'text/plain' }), { status: 415 });
  t.match(await ask({ ...trusted, 'content-type': 'application/json' }), {
    status: 400,
    json: { code: 'INVALID_JSON' },
  });
  t.match(await ask(trusted, {}), { status: 400, json: { code: 'VALIDATION_FAILED' } });
});

t.test('a start reports every fault of its shape at once, by JSON pointer', async (t) => {
  const { json, status } = await client.student().start(newExamId(), {
    exam: { durationMinutes: 0, openTime: '2026-02-30T00:00:00Z', showResultMode: 'NEVER', 'a/b': 1 },
    access: { attemptLimit: 1.5, link: { id: 'l', mode: 'NONE' } },
    questions: [choice('q1', { score: -1, orderIndex: 1.5 }), choice('q1', { type: '' })],
    studentInfo: { deep: { b: { c: { d: { e: { f: { g: { h: {} } } } } } } } },
  });
  t.match({ status, json }, { status: 400, json: { success: false, code: 'VALIDATION_FAILED' } });
  const paths = json.details.map(({ path }: { path: string }) => path);
  for (const path of [
    '/exam/durationMinutes',
    '/exam/openTime',
    '/exam/showResultMode',
    '/access/attemptLimit',
    '/access/link/mode',
    '/access/link/active',
    '/questions/0/score',
    '/questions/0/orderIndex',
    '/questions/1/type',
    '/studentInfo',
  ]) {
    t.ok(paths.includes(path), `${path} in ${paths.join(' ')}`);
  }
  t.ok(json.details.every(({ message }: { message: unknown }) => typeof message === 'string' && message !== ''));
});

t.test('refuses a paper that cannot be graded as a fault of the shape', async (t) => {
  const four = {
    type: 'TRUE_FALSE_GROUP',
    options: options('s1', 's2', 's3'),
    scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' },
  };
  const judged = ['s1', 's2', 's3'].map((statementId) => ({ statementId, value: true }));
  const cases: [string, object[], string][] = [
    [
      'an unknown option in the key',
      [choice('q', { answerKey: { correctOptionIds: ['z'] } })],
      '/questions/0/answerKey/correctOptionIds/0',
    ],
    ['no key', [choice('q', { answerKey: undefined })], '/questions/0/answerKey/correctOptionIds'],
    [
      'marks that one option lacks',
      [choice('q', { answerKey: undefined, options: [{ id: 'a', isCorrect: true }, { id: 'b' }] })],
      '/questions/0/answerKey/correctOptionIds',
    ],
    [
      'a mark that is no boolean',
      [choice('q', { options: [{ id: 'a', isCorrect: 1 }] })],
      '/questions/0/options/0/isCorrect',
    ],
    ['an empty key', [choice('q', { answerKey: { correctOptionIds: [] } })], '/questions/0/answerKey/correctOptionIds'],
    ['a ladder of three', [choice('q', { ...four, answerKey: { statements: judged } })], '/questions/0/options'],
    [
      'minScore over maxScore',
      [choice('q', { scoringRule: { mode: 'PARTIAL', minScore: 2 } })],
      '/questions/0/scoringRule/minScore',
    ],
    ['no permutation', [choice('q', { optionOrder: ['a', 'b', 'b'] })], '/questions/0/optionOrder'],
    ['a mode that does not fit', [choice('q', { scoringRule: { mode: 'NUMERIC' } })], '/questions/0/scoringRule/mode'],
    [
      'a blank accepted text',
      [
        choice('q', {
          type: 'SHORT_TEXT',
          options: [],
          scoringRule: { mode: 'SHORT_TEXT' },
          answerKey: { acceptedTexts: [' \u3000'] },
        }),
      ],
      '/questions/0/answerKey/acceptedTexts/0',
    ],
    ['one questionId twice', [choice('q'), choice('q')], '/questions/1/questionId'],
    ["another question's id", [choice('q1'), choice('q2', { id: 'q1' })], '/questions/1/id'],
    ['no question', [], '/questions'],
    ['501 questions', Array.from({ length: 501 }, (_, index) => choice(`q${index}`)), '/questions'],
    [
      '101 options',
      [choice('q', { options: options('a', ...Array.from({ length: 100 }, (_, n) => `o${n}`)) })],
      '/questions/0/options',
    ],
    [
      'a ladder of its own',
      [
        choice('q', {
          ...four,
          options: options('s1', 's2', 's3', 's4'),
          scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER', ladder: [0, 0, 0, 0, 1] },
          answerKey: { statements: [...judged, { statementId: 's4', value: false }] },
        }),
      ],
      '/questions/0/scoringRule/ladder',
    ],
  ];
  for (const [name, questions, path] of cases) {
    const { status, json } = await client.student().start(newExamId(), { questions: questions as [] });
    t.match({ status, code: json.code }, { status: 400, code: 'VALIDATION_FAILED' }, name);
    t.ok(
      json.details?.some((fault: { path: string }) => fault.path === path),
      `${name}: ${JSON.stringify(json.details)}`,
    );
  }
});

t.test('a start reports faults of the schema and of the paper together', async (t) => {
  const { json } = await client.student().start(newExamId(), {
    questions: [choice('q1', { score: -1 }), choice('q2', { answerKey: { correctOptionIds: ['z'] } })],
  });
  t.same(json.details?.map(({ path }: { path: string }) => path).sort(), [
    '/questions/0/score',
    '/questions/1/answerKey/correctOptionIds/0',
  ]);
});

t.test('accepts any object as student info and returns it unchanged on every route', async (t) => {
  const studentInfo = {
    fullName: 'Nguyễn An',
    age: 17,
    phone: null,
    $where: '$$ROOT',
    'a.b': { $set: [1, [], {}, { 'c.$d': false }] },
    nul: 'x\u0000y',
    note: 'x'.repeat(15_000),
  };
  const { student, id, attempt } = await client.sitting({ studentInfo });
  t.same(attempt.studentInfo, studentInfo);
  t.same((await student.get(id)).data.studentInfo, studentInfo);
  t.same((await student.result(id)).data.attempt.studentInfo, studentInfo);
  const saved = await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
  t.same(saved.data.studentInfo, studentInfo);
  t.same((await client.admin().get(id)).data.studentInfo, studentInfo);
  t.same((await client.sitting({ studentInfo: {} })).attempt.studentInfo, {});
  for (const [name, wrong] of Object.entries({
    'over 16 KiB': { note: 'x'.repeat(16_384) },
    'nine levels': { a: [{ a: [{ a: [{ a: [{}] }] }] }] },
    'a list': [],
    'a text': 'An',
  })) {
    const { status, json } = await client.student().start(newExamId(), { studentInfo: wrong });
    t.match({ status, json }, { status: 400, json: { code: 'VALIDATION_FAILED' } }, name);
    t.equal(json.details[0].path, '/studentInfo', name);
  }
});

t.test('unknown fields of a start are refused, or dropped and never stored', async (t) => {
  const canary = `canary-${randomUUID()}`;
  const strange = { canary, $where: canary, 'a.b': canary };
  const examId = newExamId();
  const student = client.student();
  const change = {
    exam: strange,
    access: { ...strange, link: { ...link('l-strange').link, ...strange } },
    questions: [
      choice('q1', {
        ...strange,
        options: [{ id: 'a', ...strange }],
        scoringRule: { mode: 'EXACT', ...strange },
        answerKey: { correctOptionIds: ['a'], ...strange },
      }),
    ],
    courseAttemptContext: {
      courseId: 'c-1',
      courseQuizReferenceId: 'quiz-1',
      lessonId: 'l-1',
      studentId: student.id,
      organizationId: 'org-1',
      validatedBy: 'course-service',
      validatedAt: '2026-11-20T00:00:00Z',
      ...strange,
    },
  };
  const marker = { 'x-course-attempt-context-source': 'course-service' };
  const { status, data } = await student.start(examId, change, { headers: marker });
  t.equal(status, 201);
  t.equal(data.attempt.courseContext.courseId, 'c-1');
  for (const { name } of await cluster.mongo.listCollections().toArray()) {
    for await (const row of cluster.mongo.collection(name).find({})) {
      if (JSON.stringify(row).includes(canary)) t.fail(`stored in ${name}`);
    }
  }
  const send = (body: object) =>
    client.call('POST', `/v1/exams/${examId}/attempts`, {
      headers: { ...TRUSTED, 'x-user-id': 'strange', 'x-user-role': 'STUDENT', 'idempotency-key': 'k' },
      body,
    });
  const other = await send({ ...startBody(examId), surprise: 1 });
  t.match(other, { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/surprise' }] } });
});

t.test('a null optional field of a start counts as absent', async (t) => {
  const nulls = (names: string) => Object.fromEntries(names.split(' ').map((name) => [name, null]));
  const { status, data } = await client.student().start(newExamId(), {
    exam: nulls(
      'organizationId title subject gradeLevel deliveryMode maxAttempts openTime closeTime requiresAccessPassword shuffleQuestions shuffleOptions randomizePerAttempt resultsReleasedAt createdById assignedClassroomIds resultViewerTeacherIds',
    ),
    access: nulls('attemptLimit passwordVerified assignmentDueAt link'),
    questions: [choice('q1', nulls('id examQuestionId questionVersionId orderIndex content contentText optionOrder'))],
    studentInfo: null,
    courseAttemptContext: null,
  });
  t.equal(status, 201);
  t.match(data.attempt, { organizationId: null, accessLinkId: null, studentInfo: null, courseContext: null });
});
