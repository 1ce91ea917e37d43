import t from 'tap';
import { attemptClient, essay } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { workers: ['grading', 'essayhandoff'], inside: true });
const client = await attemptClient(cluster);
const TEACHER = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
const PATHS = ['generation', 'explanation', 'essay-grade'] as const;
type Kind = (typeof PATHS)[number];

const BODIES: Record<Kind, Record<string, unknown>> = {
  generation: {
    mode: 'fresh',
    subject: 'Toán',
    gradeLevel: '12',
    topic: 'Đạo hàm',
    questionType: 'MULTIPLE_CHOICE',
    difficulty: 'dễ',
    count: 3,
  },
  explanation: { content: '1 + 1 = ?', options: [{ id: 'a', content: '2' }], answerKey: { correctOptionIds: ['a'] } },
  'essay-grade': {
    questionId: 'essay',
    prompt: 'Tả con sông',
    answerText: 'Sông dài.',
    maxScore: 5,
    rubric: {
      criteria: [
        { id: 'ideas', name: 'Ý', maxScore: 3.3 },
        { id: 'style', name: 'Lời', maxScore: 1.7 },
      ],
    },
  },
};

const ask = (kind: Kind, change: Record<string, unknown> = {}, headers: Record<string, string | undefined> = {}) =>
  client.call('POST', `/v1/ai/${kind}/preview`, {
    body: { ...BODIES[kind], ...change },
    headers: { ...TEACHER, ...headers },
  });

t.test('only a teacher or admin in an organization gets a preview', async (t) => {
  for (const kind of PATHS) {
    for (const missing of ['x-actor-id', 'x-actor-role', 'x-organization-id']) {
      t.match(await ask(kind, {}, { [missing]: undefined }), { status: 401, json: { code: 'UNAUTHENTICATED' } });
    }
    t.match(await ask(kind, {}, { 'x-actor-role': 'STUDENT' }), { status: 403, json: { code: 'FORBIDDEN' } });
    const nobody = { 'x-actor-role': 'STUDENT', 'x-organization-id': undefined };
    t.match(
      await ask(kind, {}, nobody),
      { status: 401, json: { code: 'UNAUTHENTICATED' } },
      'identity is checked before the role',
    );
    t.match(await ask(kind, {}, { 'x-actor-role': 'ADMIN' }), { status: 200 });
  }
});

t.test('an invalid request is refused with every fault', async (t) => {
  const faulty: [Kind, Record<string, unknown>, string][] = [
    ['generation', { count: 21 }, '/count'],
    ['generation', { count: 0 }, '/count'],
    ['generation', { mode: 'FRESH' }, '/mode'],
    ['generation', { difficulty: 'x'.repeat(65) }, '/difficulty'],
    ['generation', { topic: '   ' }, '/topic'],
    ['generation', { provider: 'openai' }, '/provider'],
    ['generation', { references: [{ content: 'mine' }] }, '/references'],
    ['generation', { referenceQuestionIds: ['q-1'] }, '/referenceQuestionIds'],
    ['generation', { mode: 'similar' }, '/referenceQuestionIds'],
    ['generation', { mode: 'similar', referenceQuestionIds: ['1', '2', '3', '4', '5', '6'] }, '/referenceQuestionIds'],
    ['explanation', { content: undefined }, '/content'],
    ['explanation', { style: 7 }, '/style'],
    ['essay-grade', { maxScore: 4.9 }, '/maxScore'],
    ['essay-grade', { rubric: { criteria: [] } }, '/rubric/criteria'],
    ['essay-grade', { answerText: '' }, '/answerText'],
  ];
  for (const [kind, change, path] of faulty) {
    const { status, json } = await ask(kind, change);
    t.match({ status, code: json.code }, { status: 400, code: 'VALIDATION_FAILED' }, `${kind} ${path}`);
    t.ok(
      json.details.some((fault: { path: string }) => fault.path === path),
      `${path} among ${JSON.stringify(json.details)}`,
    );
  }
  const twice = await ask('generation', { count: 0, mode: 'x' });
  t.strictSame(twice.json.details.map(({ path }: { path: string }) => path).sort(), ['/count', '/mode']);
});

t.test('an essay of 100,000 characters is accepted, a body over 1 MiB is refused', async (t) => {
  t.match(await ask('essay-grade', { answerText: 'ơ'.repeat(100_000) }), { status: 200 });
  t.match(await ask('essay-grade', { answerText: 'ơ'.repeat(600_000) }), { status: 413 });
});

t.test('the mock returns the same questions, solution and grade each time', async (t) => {
  const strip = ({ data }: { data: { previewId: string; handoff?: object } }) => {
    const { previewId: _, handoff, ...rest } = data;
    return { ...rest, handoff: { ...handoff, sourceEventId: '', occurredAt: '' } };
  };
  for (const kind of PATHS) {
    const [first, second] = [await ask(kind), await ask(kind)];
    t.equal(first.status, 200);
    t.not(first.data.previewId, second.data.previewId);
    t.strictSame(strip(first), strip(second), kind);
    t.match(first.data, { provider: 'mock', chargePolicy: 'preview_only_no_consume', owner: { service: String } });
  }
  t.match((await ask('generation')).data, { kind: 'generate', mode: 'fresh', questions: { length: 3 } });
  t.match((await ask('explanation')).data, { kind: 'explain', solution: { text: String, steps: Array } });
});

t.test('a question of each generated type can be explained as it was returned', async (t) => {
  for (const questionType of ['MULTIPLE_CHOICE', 'TRUE_FALSE_GROUP', 'SHORT_TEXT', 'NUMERIC', 'ESSAY']) {
    const [question] = (await ask('generation', { questionType })).data.questions;
    const explained = await client.call('POST', '/v1/ai/explanation/preview', { body: question, headers: TEACHER });
    t.match(
      explained,
      { status: 200, data: { kind: 'explain' } },
      `${questionType}: ${JSON.stringify(explained.json)}`,
    );
  }
});

t.test('similar questions require a question bank', async (t) => {
  const similar = await ask('generation', { mode: 'similar', referenceQuestionIds: ['q-1'] });
  t.match(similar, { status: 503, json: { code: 'AI_OWNER_UNAVAILABLE' } });
});

t.test('the attempt service accepts a previewed grade unchanged, and once', async (t) => {
  const { student, id } = await client.sitting({ questions: [essay()] });
  await student.save(id, { questionId: 'essay', textAnswer: 'Sông dài.' });
  await student.submit(id);
  const { status, data } = await ask('essay-grade', { attemptId: id });
  t.equal(status, 200);
  t.match(data, { kind: 'grade', maxScore: 5, owner: { service: 'attempt-service' } });
  const sendHandoff = () =>
    client.call('POST', data.owner.route.replace('POST ', '').replace('{attemptId}', id), {
      body: data.handoff,
      headers: { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': cluster.tokens.internal },
    });
  const applied = await sendHandoff();
  t.match(applied, { status: 200, data: { applied: true, sourceEventId: data.handoff.sourceEventId } });
  t.match(applied.data.attempt, { status: 'GRADED', totalScore: data.score });
  const { events } = applied.data.attempt;
  const { metadata } = events.find(({ type }: { type: string }) => type === 'ESSAY_GRADE_HANDOFF');
  const { sourceService: _, type: __, ...kept } = data.handoff;
  t.strictSame(metadata, kept, 'nothing of it is lost');
  t.match(await sendHandoff(), { status: 200, data: { applied: false } });
});

t.test('a faulty request is 400 for a caller whose previews in flight are at their limit', async (t) => {
  const until = new Date(Date.now() + 60_000);
  const leases = ['1', '2', '3', '4'].map((id) => ({ id, until }));
  const row = { _id: 'busy', leases, lastAt: new Date() };
  await cluster.mongo.collection<typeof row>('ai_preview_leases').insertOne(row);
  const busy = { 'x-actor-id': 'busy' };
  t.match(await ask('generation', {}, busy), { status: 429, json: { code: 'RATE_LIMITED' } });
  t.match(await ask('generation', { mode: 'similar' }, busy), { status: 400, json: { code: 'VALIDATION_FAILED' } });
  t.match(await ask('essay-grade', { maxScore: 4.9 }, busy), { status: 400, json: { code: 'VALIDATION_FAILED' } });
});
