import { randomUUID } from 'node:crypto';
import t from 'tap';
import {
  attemptClient,
  choice,
  inMs,
  newExamId,
  type Person,
  type StartChange,
} from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, workers: [], env: { ATTEMPT_GRADING_WAIT_MS: '0' } });
const client = await attemptClient(cluster);

/** Starts and submits an attempt and returns its id. No grading worker runs in this test. */
async function finished(student: Person, examId: string, change: StartChange = {}): Promise<string> {
  const reply = await student.start(examId, change);
  if (reply.status !== 201) throw new Error(`start answered ${reply.status}: ${reply.text}`);
  await student.submit(reply.data.attempt.id);
  return reply.data.attempt.id;
}

function link(id: string, change: object = {}) {
  return { assigned: false, link: { id, mode: 'LOGIN_REQUIRED', active: true, expiresAt: null, ...change } };
}

t.test('a start key always returns the same attempt to a student of an exam', async (t) => {
  const [examId, key] = [newExamId(), `key ${randomUUID()}`];
  const student = client.student();
  const first = await student.start(examId, {}, { key });
  t.match(first, { status: 201, headers: { 'idempotency-replayed': 'false' }, data: { created: true } });
  const { id } = first.data.attempt;
  const others = {
    exam: { status: 'DRAFT', deliveryMode: 'OFFLINE' },
    access: { assigned: false },
    questions: [choice('other')],
  };
  const replay = await student.start(examId, others, { key });
  t.match(replay, {
    status: 200,
    headers: { 'idempotency-replayed': 'true' },
    data: { created: false, attempt: { id } },
  });
  t.equal(replay.data.attempt.eventCount, 1, 'the attempt has one START event');
  await student.submit(id);
  const after = await student.start(examId, others, { key });
  t.match(after, {
    status: 200,
    headers: { 'idempotency-replayed': 'true' },
    data: { created: false, attempt: { id, status: 'SUBMITTED' } },
  });
  t.match(await student.start(newExamId(), {}, { key }), { status: 201 }, 'another exam');
  t.match(await client.student().start(examId, {}, { key }), { status: 201 }, 'another student');
  t.match(await student.start(examId, { exam: { id: 'other' } }, { key }), {
    status: 400,
    json: { code: 'EXAM_ID_MISMATCH' },
  });
});

t.test('a start takes its key from the first of three headers that is present', async (t) => {
  for (const [header, headers] of [
    ['x-idempotency-key', { 'idempotency-key': undefined, 'x-idempotency-key': 'k2', 'x-correlation-id': 'k3' }],
    ['x-correlation-id', { 'idempotency-key': undefined, 'x-correlation-id': 'k3' }],
    ['idempotency-key', { 'idempotency-key': 'k1', 'x-idempotency-key': 'k2', 'x-correlation-id': 'k3' }],
    ['x-correlation-id', { 'idempotency-key': '', 'x-idempotency-key': ' ', 'x-correlation-id': 'k3' }],
  ] as const) {
    const student = client.student();
    const examId = newExamId();
    const reply = await student.start(examId, {}, { headers });
    t.equal(reply.data.attempt.events[0].metadata.idempotencyHeader.toLowerCase(), header);
    const name = header === 'idempotency-key' ? 'k1' : header === 'x-idempotency-key' ? 'k2' : 'k3';
    t.match(await student.start(examId, {}, { key: name }), {
      status: 200,
      headers: { 'idempotency-replayed': 'true' },
    });
  }
});

t.test('a permitted start returns the open attempt, and its key becomes an alias', async (t) => {
  const examId = newExamId();
  const student = client.student();
  await finished(student, examId);
  const { data } = await student.start(examId);
  const { id } = data.attempt;
  const alias = `alias-${randomUUID()}`;
  const reuse = await student.start(examId, { exam: { maxAttempts: 1 } }, { key: alias });
  t.match(reuse, {
    status: 200,
    headers: { 'idempotency-replayed': 'false' },
    data: { created: false, attempt: { id } },
  });
  t.equal(reuse.data.attempt.eventCount, 1, 'a reuse does not count as an attempt');
  await student.submit(id);
  t.match(await student.start(examId, {}, { key: alias }), {
    status: 200,
    headers: { 'idempotency-replayed': 'true' },
    data: { attempt: { id } },
  });
  const next = await student.start(examId);
  t.match(next, { status: 201, data: { attempt: { attemptNumber: 3 } } });
  t.not(next.data.attempt.id, id);
});

t.test('the rules of a start also apply while an attempt is open, but not to a replay or a read', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const key = `key-${randomUUID()}`;
  const { data } = await student.start(examId, {}, { key });
  const { id } = data.attempt;
  const cases: [number, string, StartChange][] = [
    [409, 'EXAM_NOT_PUBLISHED', { exam: { status: 'CLOSED' } }],
    [409, 'EXAM_OFFLINE', { exam: { deliveryMode: 'OFFLINE' } }],
    [409, 'EXAM_NOT_OPEN', { exam: { openTime: inMs(3_600_000) } }],
    [409, 'EXAM_CLOSED', { exam: { closeTime: inMs(-60_000) } }],
    [403, 'EXAM_PASSWORD_REQUIRED', { exam: { requiresAccessPassword: true } }],
    [403, 'EXAM_ACCESS_DENIED', { access: { assigned: false } }],
    [403, 'ACCESS_LINK_EXPIRED', { access: link('l-open', { active: false }) }],
    [403, 'ACCESS_LINK_EXPIRED', { access: link('l-open', { expiresAt: inMs(-60_000) }) }],
    [409, 'ASSIGNMENT_OVERDUE', { access: { assignmentDueAt: inMs(-60_000) } }],
  ];
  for (const [status, code, change] of cases) {
    const other = `other-${randomUUID()}`;
    t.match(await student.start(examId, change, { key: other }), { status, json: { success: false, code } }, code);
    t.match(
      await student.start(examId, {}, { key: other }),
      { status: 200, headers: { 'idempotency-replayed': 'false' }, data: { created: false, attempt: { id } } },
      'the key of a refused start is not stored',
    );
    t.match(
      await student.start(examId, change, { key }),
      { status: 200, headers: { 'idempotency-replayed': 'true' }, data: { attempt: { id } } },
      `${code} does not bind a replay`,
    );
  }
  t.match(await student.get(id), { status: 200, data: { id, status: 'IN_PROGRESS' } });
});

t.test('an attempt stores its first key and the newest fifty others', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const { data } = await student.start(examId, {}, { key: 'first' });
  for (let n = 1; n <= 51; n++) await student.start(examId, {}, { key: `alias-${n}` });
  await student.submit(data.attempt.id);
  for (const key of ['first', 'alias-2', 'alias-51']) {
    const replay = await student.start(examId, {}, { key });
    t.match(replay, { status: 200, data: { created: false, attempt: { id: data.attempt.id } } }, key);
  }
  t.match(await student.start(examId, {}, { key: 'alias-1' }), { status: 201 }, 'the oldest other key is free');
});

t.test('a start submits an attempt whose deadline has passed, and goes on', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const key = `key-${randomUUID()}`;
  const { data } = await student.start(examId, { access: link('l-1') }, { key });
  const { id } = data.attempt;
  const deadlineAt = new Date(Date.now() - 1_000);
  const attempts = cluster.mongo.collection<{ _id: string }>('attempts');
  await attempts.updateOne({ _id: id }, { $set: { deadlineAt } });

  t.match(
    await student.start(examId, { exam: { maxAttempts: 1 } }),
    { status: 409, json: { code: 'ATTEMPT_LIMIT_REACHED' } },
    'the attempt counts as submitted',
  );
  t.match(await student.get(id), {
    data: { status: 'SUBMITTED', submittedBy: 'TIMEOUT', submittedAt: deadlineAt.toISOString() },
  });
  const next = await student.start(examId);
  t.match(next, { status: 201, data: { created: true, attempt: { attemptNumber: 2, status: 'IN_PROGRESS' } } });
  t.match(await student.start(examId, {}, { key }), { status: 200, data: { attempt: { id } } }, 'a replay');
});

t.test('a start through another link than the open attempt’s requires a new attempt', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const { data } = await student.start(examId, { access: link('l-1') });
  t.equal(data.attempt.accessLinkId, 'l-1');
  t.equal(data.attempt.events[0].metadata.accessLinkId, 'l-1');
  const { id } = data.attempt;
  t.match(await student.start(examId, { access: link('l-1') }), {
    status: 200,
    data: { created: false, attempt: { id } },
  });
  t.match(
    await student.start(examId),
    { status: 200, data: { attempt: { id } } },
    'a start by assignment reuses the attempt of a link',
  );
  const dead = { ...link('l-2', { active: false }), assigned: true };
  t.match(
    await student.start(examId, { access: dead }),
    { status: 200 },
    'an inactive link beside an assignment is ignored',
  );
  t.match(await student.start(examId, { access: link('l-2') }), {
    status: 409,
    json: { code: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: id } },
  });
});

t.test('a start checks exam, window, password, access, due time and limit in this order', async (t) => {
  const student = client.student();
  const examId = newExamId();
  await finished(student, examId);
  const exam: Record<string, unknown> = {
    status: 'DRAFT',
    deliveryMode: 'OFFLINE',
    openTime: inMs(3_600_000),
    requiresAccessPassword: true,
    maxAttempts: 1,
  };
  let access: Record<string, unknown> = { assigned: false };
  const refused = async (status: number, code: string, fix: () => void) => {
    t.match(await student.start(examId, { exam, access }), { status, json: { success: false, code } }, code);
    fix();
  };
  await refused(409, 'EXAM_NOT_PUBLISHED', () => Object.assign(exam, { status: 'PUBLISHED' }));
  await refused(409, 'EXAM_OFFLINE', () => Object.assign(exam, { deliveryMode: 'ONLINE' }));
  await refused(409, 'EXAM_NOT_OPEN', () =>
    Object.assign(exam, { openTime: inMs(-120_000), closeTime: inMs(-60_000) }),
  );
  await refused(409, 'EXAM_CLOSED', () => Object.assign(exam, { closeTime: inMs(3_600_000) }));
  await refused(403, 'EXAM_PASSWORD_REQUIRED', () => Object.assign(access, { passwordVerified: true }));
  await refused(403, 'EXAM_ACCESS_DENIED', () => Object.assign(access, link('l', { active: false })));
  await refused(403, 'ACCESS_LINK_EXPIRED', () => Object.assign(access, link('l', { expiresAt: inMs(-60_000) })));
  await refused(403, 'ACCESS_LINK_EXPIRED', () => {
    access = { assigned: true, passwordVerified: true, assignmentDueAt: inMs(-60_000) };
  });
  await refused(409, 'ASSIGNMENT_OVERDUE', () => Object.assign(access, { assignmentDueAt: inMs(1_800_000) }));
  await refused(409, 'ATTEMPT_LIMIT_REACHED', () => Object.assign(exam, { maxAttempts: 2 }));
  const { status, data } = await student.start(examId, { exam, access });
  t.equal(status, 201);
  t.equal(data.attempt.deadlineAt, access.assignmentDueAt, 'the due time is the earliest of three bounds');
});

t.test(
  'the deadline is the earliest of duration, close and due time; a start by link ignores the due time',
  async (t) => {
    const close = inMs(600_000);
    const closing = await client.sitting({ exam: { closeTime: close }, access: { assignmentDueAt: inMs(900_000) } });
    t.equal(closing.attempt.deadlineAt, close);
    const linked = await client.sitting({ access: { ...link('l-due'), assignmentDueAt: inMs(-60_000) } });
    t.equal(Date.parse(linked.attempt.deadlineAt) - Date.parse(linked.attempt.startedAt), 3_600_000);
  },
);

t.test('the smaller attempt limit applies, per exam or per login link', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const LIMIT = { status: 409, json: { code: 'ATTEMPT_LIMIT_REACHED' } };
  await finished(student, examId, { access: { attemptLimit: 1 } });
  t.match(await student.start(examId, { access: { attemptLimit: 1 } }), LIMIT);
  t.match(await student.start(examId, { exam: { maxAttempts: 1 }, access: { attemptLimit: 9 } }), LIMIT);
  t.match(
    await client.student().start(examId, { access: { attemptLimit: 1 } }),
    { status: 201 },
    'each student has a limit of their own',
  );
  await finished(student, examId, { access: { ...link('l-a'), attemptLimit: 1 } });
  t.match(await student.start(examId, { access: { ...link('l-a'), attemptLimit: 1 } }), LIMIT);
  t.match(
    await student.start(examId, { access: { ...link('l-b'), attemptLimit: 1 } }),
    { status: 201 },
    'each link has a count of its own',
  );
});

t.test('a guest link admits up to `studentLimit` students', async (t) => {
  const examId = newExamId();
  const guests = link(`guests-${randomUUID()}`, { mode: 'GUEST_ALLOWED', studentLimit: 2 });
  const students = [client.student(), client.student()] as const;
  await finished(students[0], examId, { access: guests });
  await finished(students[1], examId, { access: guests });
  t.match(await client.student().start(examId, { access: guests }), {
    status: 409,
    json: { code: 'ACCESS_LINK_FULL' },
  });
  t.match(
    await students[0].start(examId, { access: guests }),
    { status: 201 },
    'a student with a seat can start again',
  );
  const lowered = { link: { ...guests.link, studentLimit: 1 }, assigned: false };
  t.match(await client.student().start(examId, { access: lowered }), { json: { code: 'ACCESS_LINK_FULL' } });
  const raised = { link: { ...guests.link, studentLimit: 2_147_483_647 }, assigned: false };
  t.match(await client.student().start(examId, { access: raised }), { status: 201 }, 'the largest student limit');
  const login = link('no-seats', { studentLimit: 1 });
  await finished(client.student(), examId, { access: login });
  t.match(
    await client.student().start(examId, { access: login }),
    { status: 201 },
    'a login link has no student limit',
  );
});

t.test('refuses a course context that is incomplete, of another start or not from the course service', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const context = {
    courseId: 'c-1',
    courseQuizReferenceId: 'quiz-1',
    lessonId: 'lesson-1',
    studentId: student.id,
    organizationId: 'org-1',
    examId,
    validatedBy: 'course-service',
    validatedAt: '2026-11-20T08:00:00+07:00',
  };
  const marker = { 'x-course-attempt-context-source': 'course-service' };
  const UNTRUSTED = { status: 403, json: { code: 'COURSE_CONTEXT_UNTRUSTED' } };
  const INVALID = { status: 400, json: { code: 'COURSE_CONTEXT_INVALID' } };
  const send = (change: object, headers: Record<string, string> = marker, exam: object = {}) =>
    student.start(examId, { exam: { ...exam }, courseAttemptContext: { ...context, ...change } }, { headers });

  t.match(await send({}, {}), UNTRUSTED, 'without the marker header');
  t.match(
    await send({}, { 'x-course-attempt-context-source': 'api-gateway' }),
    UNTRUSTED,
    'with another value of the marker header',
  );
  t.match(await send({ studentId: 'other' }, {}), UNTRUSTED, 'the marker header is checked before the student');
  t.match(
    await send({}, {}, { id: 'other' }),
    { status: 400, json: { code: 'EXAM_ID_MISMATCH' } },
    'the exam id is checked before the course context',
  );
  for (const field of Object.keys(context)) {
    if (field !== 'examId') t.match(await send({ [field]: undefined }), INVALID, `without ${field}`);
    if (field !== 'validatedAt') t.match(await send({ [field]: '' }), INVALID, `with an empty ${field}`);
  }
  for (const field of ['studentId', 'organizationId', 'examId', 'validatedBy']) {
    t.match(await send({ [field]: 'other' }), INVALID, `another ${field}`);
  }
  const { status, data } = await send({ examId: undefined, title: 'x' });
  const { examId: _, ...kept } = { ...context, validatedAt: '2026-11-20T01:00:00.000Z' };
  t.equal(status, 201);
  t.same(data.attempt.courseContext, kept, 'without an examId, and without further members');
  t.match(await send({}), { status: 200 }, 'a context with the examId of the path');
  t.match(
    (await student.start(examId)).data.attempt.courseContext,
    kept,
    'a start without a context keeps the stored one',
  );
});
