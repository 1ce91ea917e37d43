import t from 'tap';
import { attemptClient, choice, essay, newExamId } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, { inside: true, workers: ['grading', 'upkeep'] });
const { neighbours } = cluster;
const client = await attemptClient(cluster);
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
