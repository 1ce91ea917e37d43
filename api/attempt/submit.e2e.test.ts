import t from 'tap';
import { attemptClient, choice, essay, newExamId } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

/** Long, so that upkeep does not submit an overdue attempt before the test does. */
const GRACE_MS = 120_000;
const cluster = await startCluster(t, {
  inside: true,
  workers: ['essayhandoff', 'upkeep'],
  asleep: ['grading'],
  doors: 2,
  env: { ATTEMPT_OVERDUE_GRACE_SECONDS: `${GRACE_MS / 1_000}`, UPKEEP_INTERVAL_MS: '100' },
  envOf: { web2: { ATTEMPT_GRADING_WAIT_MS: '200' } },
});
const { neighbours } = cluster;
const client = await attemptClient(cluster);
/** Client of the door that waits only briefly for a grade. */
const hasty = await attemptClient(cluster, 2);

function expire(id: string, agoMs: number) {
  const deadlineAt = new Date(Date.now() - agoMs);
  return cluster.mongo.collection<{ _id: string }>('attempts').updateOne({ _id: id }, { $set: { deadlineAt } });
}

// Runs first, while no grading worker is running.
await t.test('a submit answers 202 without a grading worker, and 200 once one runs', async (t) => {
  const { student, id } = await hasty.sitting();
  await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
  const timed = await hasty.sitting();
  const late = await student.submit(id);
  t.equal(late.status, 202);
  t.match(late.data, {
    status: 'SUBMITTED',
    submittedBy: 'STUDENT',
    totalScore: null,
    correctCount: null,
    wrongCount: null,
    pendingManualCount: null,
    maxScore: 1,
    resultVisible: false,
    hiddenReason: 'Bài làm đang được chấm.',
    answers: [{ isCorrect: null, score: null }],
  });
  t.ok(
    late.data.events.every(({ type }: { type: string }) => type !== 'SUBMIT'),
    'the SUBMIT event is of the grade',
  );
  t.equal(
    late.data.durationSeconds,
    Math.floor((Date.parse(late.data.submittedAt) - Date.parse(late.data.startedAt)) / 1_000),
  );
  t.match(await student.submit(id, undefined), { status: 202 }, 'a second submit waits like the first');
  t.match(await timed.student.post(timed.id, 'TIMEOUT'), {
    status: 202,
    data: { status: 'SUBMITTED', submittedBy: 'TIMEOUT' },
  });
  t.match((await student.result(id)).data, { scorePercent: null, attempt: { status: 'SUBMITTED' } });
  t.match(await student.post(id, 'TIMEOUT', { n: 1 }), { status: 201, data: { type: 'TIMEOUT', metadata: { n: 1 } } });
  t.match(await student.save(id, { questionId: 'q1', selectedOptionIds: ['b'] }), {
    status: 409,
    json: { code: 'ATTEMPT_LOCKED' },
  });
  for (const teacher of [hasty.teacher('teacher-1'), hasty.teacher('teacher-2'), hasty.admin()]) {
    t.match((await teacher.get(id)).data, { resultVisible: true, hiddenReason: null, totalScore: null });
  }
  await cluster.start('grading');
  const graded = await until('the attempt is graded', async () => {
    const reply = await student.submit(id);
    return reply.status === 200 && reply;
  });
  t.match(graded.data, {
    status: 'GRADED',
    submittedAt: late.data.submittedAt,
    totalScore: 1,
    resultVisible: true,
    hiddenReason: null,
  });
  t.match(graded.data.events.at(-1), { type: 'SUBMIT', metadata: { source: 'STUDENT', totalScore: 1 } });
  const { remainingSeconds } = graded.data.events.at(-1).metadata;
  t.ok(remainingSeconds > 3_500 && remainingSeconds <= 3_600, `${remainingSeconds} s were left`);
});

t.test('an attempt is submitted once, and STUDENT is the only accepted source', async (t) => {
  const { student, id } = await client.sitting();
  for (const body of [{ source: 'TIMEOUT' }, { source: 'student' }, { source: 1 }, { other: 1 }]) {
    t.match(await student.submit(id, body), { status: 400, json: { code: 'VALIDATION_FAILED' } });
  }
  t.match(await client.student().submit(id), { status: 403, json: { code: 'FORBIDDEN' } });
  t.match(await client.teacher('teacher-1').submit(id), { status: 403 });
  t.match(await student.submit('missing'), { status: 404, json: { code: 'ATTEMPT_NOT_FOUND' } });
  t.equal((await student.get(id)).data.status, 'IN_PROGRESS');
  const bodyless = await client.call('POST', `/v1/attempts/${id}/submit`, {
    headers: { 'x-user-id': student.id, 'x-user-role': 'STUDENT' },
  });
  t.equal(bodyless.status, 200);
  const again = await student.submit(id);
  const { serverTime: _a, ...first } = bodyless.data;
  const { serverTime: _b, ...second } = again.data;
  t.same(second, first);
  t.match(await student.post(id, 'TIMEOUT', { why: 'late' }), {
    status: 201,
    data: { type: 'TIMEOUT', metadata: { why: 'late' } },
  });
  t.match((await student.get(id)).data, { submittedBy: 'STUDENT', eventCount: 3 });
});

t.test('a submit after the deadline counts as the student’s, at the time of the request', async (t) => {
  const { student, id } = await client.sitting();
  await expire(id, 1_000);
  const { status, data } = await student.submit(id);
  t.equal(status, 200);
  t.match(data, { submittedBy: 'STUDENT', status: 'GRADED' });
  t.ok(data.submittedAt > data.deadlineAt);
  t.equal(data.events.at(-1).metadata.remainingSeconds <= 0, true);
});

t.test('a TIMEOUT event submits at once, with the earlier of now and the deadline as its time', async (t) => {
  const early = await client.sitting();
  const { status, data } = await early.student.post(early.id, 'TIMEOUT', { tab: 1 });
  t.equal(status, 200);
  t.match(data, {
    status: 'GRADED',
    submittedBy: 'TIMEOUT',
    events: [{ type: 'START' }, { type: 'TIMEOUT', metadata: { source: 'TIMEOUT', client: { tab: 1 } } }],
  });
  t.ok(data.submittedAt < data.deadlineAt);
  const late = await client.sitting();
  await expire(late.id, 700);
  const after = await late.student.post(late.id, 'TIMEOUT');
  t.equal(after.data.submittedAt, after.data.deadlineAt);
  t.notOk('client' in after.data.events.at(-1).metadata, 'a client that sent nothing left nothing');
  const full = await client.sitting();
  await cluster.mongo
    .collection<{ _id: string }>('attempts')
    .updateOne({ _id: full.id }, { $set: { clientEvents: 10_000 } });
  t.match(await full.student.post(full.id, 'TAB_HIDDEN'), { status: 429, json: { code: 'EVENT_LIMIT_REACHED' } });
  t.match(
    await full.student.post(full.id, 'TIMEOUT'),
    { status: 200, data: { status: 'GRADED' } },
    'no limit holds it',
  );
  t.match(
    await full.student.post(full.id, 'TIMEOUT', { tab: 2 }),
    { status: 201, data: { type: 'TIMEOUT', metadata: { tab: 2 } } },
    'a later TIMEOUT is an event like others, but no limit refuses it',
  );
  t.match(
    await full.student.post(full.id, 'TIMEOUT', { long: 'x'.repeat(8_000) }),
    { status: 201 },
    'nor one in a row',
  );
  t.match(await full.student.post(full.id, 'FOCUS_RETURNED'), { status: 429 }, 'the limit still holds for the others');
});

t.test('stores the metadata of a TIMEOUT event unchanged, keys and length', async (t) => {
  const { student, id } = await client.sitting({ exam: { showResultMode: 'MANUAL' } });
  const metadata = {
    $set: { status: 'GRADED' },
    'a.b': { $$NOW: null },
    constructor: 'text',
    totalScore: 5,
    filler: 'x'.repeat(7_000),
  };
  const { status, data } = await student.post(id, 'TIMEOUT', metadata);
  t.equal(status, 200);
  const event = data.events.at(-1);
  t.strictSame(event.metadata.client, metadata);
  t.equal(event.metadata.totalScore, null, 'the grade is hidden, the metadata of the client is not');
  t.strictSame((await student.events(id)).data.at(-1), event);
});

t.test('upkeep submits an overdue attempt after the grace period', async (t) => {
  const swept = await client.sitting();
  const spared = await client.sitting();
  await expire(spared.id, 0);
  await expire(swept.id, GRACE_MS);
  const { data } = await until('the sweep', async () => {
    const reply = await swept.student.get(swept.id);
    return reply.data.status === 'GRADED' && reply;
  });
  t.match(data, { submittedBy: 'TIMEOUT', submittedAt: data.deadlineAt, events: [{}, { type: 'TIMEOUT' }] });
  const other = await spared.student.get(spared.id);
  t.equal(other.data.status, 'IN_PROGRESS');
});

t.test('practice questions are graded but not counted, and accept a handoff of score 0', async (t) => {
  const practice = [
    choice('right', { score: 0 }),
    choice('wrong', { score: 0, scoringRule: { mode: 'PARTIAL', incorrectPenalty: 1, minScore: -5 } }),
    choice('blank', { score: 0 }),
    essay('letter', { score: 0, scoringRule: { mode: 'MANUAL' } }),
  ];
  for (const [questions, totalScore, scorePercent] of [
    [[choice('real', { score: 2 }), ...practice], 2, 100],
    [practice, 0, null],
  ] as const) {
    const { student, id, attempt } = await client.sitting({ questions });
    const counts = { correctCount: totalScore === 0 ? 0 : 1, wrongCount: 0 };
    t.equal(attempt.maxScore, totalScore);
    if (totalScore > 0) await student.save(id, { questionId: 'real', selectedOptionIds: ['a'] });
    await student.save(id, { questionId: 'right', selectedOptionIds: ['a'] });
    await student.save(id, { questionId: 'wrong', selectedOptionIds: ['b'] });
    await student.save(id, { questionId: 'letter', textAnswer: 'words' });
    const { data } = await student.submit(id);
    t.match(data, { status: 'GRADED', totalScore, ...counts, pendingManualCount: 1 });
    const answers = new Map(data.answers.map((one: { questionId: string }) => [one.questionId, one]));
    t.match(answers.get('right'), { score: 0, isCorrect: true });
    t.match(answers.get('wrong'), { score: 0, isCorrect: false });
    t.match(answers.get('letter'), { score: null, isCorrect: null });
    const handoff = await client.sendHandoff(id, { questionId: 'letter', score: 0, maxScore: 0 });
    t.match(handoff, { status: 200, data: { applied: true } });
    const result = await student.result(id);
    t.equal(result.data.scorePercent, scorePercent);
    t.match(result.data.attempt, { totalScore, ...counts, pendingManualCount: 0 });
  }
});

const callsOf = (id: string) => neighbours.calls.filter(({ body }) => body?.entityId === id);

t.test('analytics receives the first grading only, whatever status it answers', async (t) => {
  const examId = newExamId();
  const student = client.student();
  const context = {
    courseId: 'c-1',
    courseQuizReferenceId: 'quiz-1',
    lessonId: 'l-1',
    studentId: student.id,
    organizationId: 'org-1',
    examId,
    validatedBy: 'course-service',
    validatedAt: '2026-11-20T00:00:00.000Z',
  };
  const questions = [choice('q1', { questionVersionId: 'v2', score: 2 }), choice('q2', { type: 'PICK_ONE' }), essay()];
  const headers = { 'x-course-attempt-context-source': 'course-service' };
  const { data } = await student.start(
    examId,
    { exam: { showResultMode: 'MANUAL' }, questions, courseAttemptContext: context },
    { headers },
  );
  const { id } = data.attempt;
  await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'] });
  await student.save(id, { questionId: 'essay', textAnswer: 'canary-essay' });
  const graded = (await student.submit(id)).data;
  await student.submit(id);
  const events = await until('three events', () => {
    const found = callsOf(id).filter(({ path }) => path === '/v1/events');
    return found.length >= 3 && found;
  });
  t.equal(events.length, 3);
  const { examId: _, ...courseContext } = context;
  const common = {
    sourceService: 'attempt-service',
    entity: 'ExamAttempt',
    entityId: id,
    organizationId: 'org-1',
    actorId: student.id,
    studentId: student.id,
    payload: {
      exam: graded.exam,
      result: {
        totalScore: 2,
        maxScore: 8,
        scorePercent: 25,
        correctCount: 1,
        wrongCount: 1,
        durationSeconds: graded.durationSeconds,
      },
      answerCount: 2,
      questions: [
        {
          questionId: 'q1',
          questionVersionId: 'v2',
          type: 'SINGLE_CHOICE',
          mode: 'EXACT',
          score: 2,
          maxScore: 2,
          isCorrect: true,
        },
        {
          questionId: 'q2',
          questionVersionId: null,
          type: 'PICK_ONE',
          mode: 'EXACT',
          score: 0,
          maxScore: 1,
          isCorrect: false,
        },
        {
          questionId: 'essay',
          questionVersionId: null,
          type: 'ESSAY',
          mode: 'ESSAY',
          score: null,
          maxScore: 5,
          isCorrect: null,
        },
      ],
    },
  };
  const byId = new Map(events.map((call) => [call.body?.sourceEventId, call]));
  const gradedAt = (await client.admin().get(id)).data.events.find(
    ({ type }: { type: string }) => type === 'SUBMIT',
  ).createdAt;
  const expected = [
    { ...common, sourceEventId: `${id}:submitted`, type: 'attempt.submitted.v1', occurredAt: graded.submittedAt },
    { ...common, sourceEventId: `${id}:graded`, type: 'attempt.graded.v1', occurredAt: gradedAt },
    {
      ...common,
      sourceEventId: `${id}:graded:v2`,
      type: 'attempt.graded.v2',
      occurredAt: gradedAt,
      schemaVersion: 2,
      courseContext,
    },
  ];
  for (const event of expected) t.same(byId.get(event.sourceEventId)?.body, event, event.type);
  t.match(events[0], {
    method: 'POST',
    headers: { 'x-internal-service': 'attempt-service', 'x-internal-token': cluster.tokens.internal },
  });
  t.notOk(JSON.stringify(events.map(({ body }) => body)).includes('canary-essay'));

  const failing = await client.sitting();
  neighbours.answer = () => ({ status: 500 });
  t.match(await failing.student.submit(failing.id), { status: 200, data: { status: 'GRADED' } });
  await until(
    'both events were sent again after an answer of 500',
    () => callsOf(failing.id).filter(({ path }) => path === '/v1/events').length >= 4,
  );
  neighbours.answer = null;
});
