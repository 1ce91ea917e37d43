import { randomUUID } from 'node:crypto';
import t from 'tap';
import { attemptClient, choice, essay } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  workers: ['essayhandoff'],
  asleep: ['grading'],
  doors: 3,
  envOf: { web2: { ATTEMPT_GRADING_WAIT_MS: '200' }, web3: { INTERNAL_SERVICE_TOKEN: '' } },
});
const client = await attemptClient(cluster);
/** At the door that does not wait long for a worker. */
const hasty = await attemptClient(cluster, 2);
const QUESTIONS = [
  choice('q1'),
  essay(),
  essay('blank'),
  choice('manual', { score: 2, scoringRule: { mode: 'MANUAL' }, answerKey: null }),
];

async function sitting(at = client) {
  const seat = await at.sitting({ questions: QUESTIONS });
  await seat.student.save(seat.id, { questionId: 'q1', selectedOptionIds: ['a'] });
  await seat.student.save(seat.id, { questionId: 'essay', textAnswer: 'words' });
  await seat.student.save(seat.id, { questionId: 'manual', selectedOptionIds: ['b'] });
  return seat;
}

async function graded() {
  const seat = await sitting();
  const { status } = await seat.student.submit(seat.id);
  await until('graded', async () => status === 200 || (await seat.student.submit(seat.id)).status === 200);
  return seat;
}

// First, while nobody grades.
await t.test('while the attempt is being graded a good handoff waits, a bad one is refused', async (t) => {
  const { student, id } = await sitting(hasty);
  t.match(await client.handOff(id), { status: 409, json: { code: 'ATTEMPT_NOT_SUBMITTED' } });
  t.equal((await student.submit(id)).status, 202);
  const sourceEventId = randomUUID();
  const late = await hasty.handOff(id, { sourceEventId });
  t.same(Object.keys(late.data).sort(), ['applied', 'attempt', 'sourceEventId']);
  t.match(late, { status: 202, data: { applied: null, sourceEventId, attempt: { id, status: 'SUBMITTED' } } });
  t.match(
    await hasty.handOff(id, { sourceEventId }),
    { status: 202, data: { applied: null } },
    'a repeat waits likewise',
  );
  t.match(await client.handOff(id, { questionId: 'q1', score: 1 }), {
    status: 409,
    json: { code: 'QUESTION_NOT_MANUAL' },
  });
  await cluster.start('grading');
  const applied = await until('it is applied', async () => {
    const { data } = await student.get(id);
    return data.pendingManualCount === 1 && data;
  });
  t.match(applied, { status: 'GRADED', totalScore: 5 });
  t.match(await client.handOff(id, { sourceEventId }), { status: 200, data: { applied: false } });
  const handoffs = (await student.events(id)).data.filter(
    ({ type }: { type: string }) => type === 'ESSAY_GRADE_HANDOFF',
  );
  t.equal(handoffs.length, 1);
});

t.test('a handoff sets the score, recomputes the totals and leaves its event, once', async (t) => {
  const { student, id, attempt } = await graded();
  t.match((await student.get(id)).data, { totalScore: 1, pendingManualCount: 2, correctCount: 1, wrongCount: 1 });
  const criteria = [{ id: 'c1', name: 'Ý', score: 2.5, maxScore: 3, comment: 'tốt' }];
  const change = {
    sourceEventId: 'event $1.x',
    score: 4.5,
    feedback: 'Khá',
    criteria,
    provider: 'mock',
    model: 'm-1',
    occurredAt: '2026-11-20T08:00:00+07:00',
  };
  const first = await client.handOff(id, change);
  t.match(first, { status: 200, data: { applied: true, sourceEventId: 'event $1.x' } });
  t.match(first.data.attempt, { totalScore: 5.5, pendingManualCount: 1, correctCount: 1, wrongCount: 2 });
  t.match(first.data.attempt.answers[1], { questionId: 'essay', score: 4.5, isCorrect: false, serverVersion: 1 });
  t.notOk(first.text.includes('answerKey'));
  const event = first.data.attempt.events.at(-1);
  t.equal(event.type, 'ESSAY_GRADE_HANDOFF');
  t.same(event.metadata, {
    sourceEventId: 'event $1.x',
    questionId: 'essay',
    score: 4.5,
    maxScore: 5,
    provider: 'mock',
    model: 'm-1',
    occurredAt: '2026-11-20T01:00:00.000Z',
    feedback: 'Khá',
    criteria,
  });
  const replay = await client.handOff(id, { ...change, score: 1 });
  t.match(replay, {
    status: 200,
    data: { applied: false, attempt: { totalScore: 5.5, eventCount: first.data.attempt.eventCount } },
  });
  const own = attempt.questions.find(({ questionId }: { questionId: string }) => questionId === 'essay').id;
  const regrade = await client.handOff(id, { questionId: own, score: 5 });
  t.match(regrade.data, {
    applied: true,
    attempt: { totalScore: 6, correctCount: 2, wrongCount: 1, pendingManualCount: 1 },
  });
  const manual = await client.handOff(id, { questionId: 'manual', score: 0, maxScore: 2 });
  t.match(manual.data, {
    applied: true,
    attempt: { totalScore: 6, correctCount: 2, wrongCount: 2, pendingManualCount: 0 },
  });
  t.match((await student.result(id)).data, { scorePercent: (6 / 13) * 100 });
  t.match(await client.handOff((await graded()).id, change), { data: { applied: true } }, 'the id counts per attempt');
  t.notOk(
    cluster.neighbours.calls.some(({ path }) => /usage|wallet/.test(path)),
    'no usage or wallet call',
  );
});

t.test('each rule has its code, and a refused id may be sent again', async (t) => {
  const { student, id } = await graded();
  const before = (await student.get(id)).data.eventCount;
  const sourceEventId = randomUUID();
  const cases: [number, string, object][] = [
    [400, 'QUESTION_NOT_IN_ATTEMPT', { questionId: 'other' }],
    [409, 'QUESTION_NOT_MANUAL', { questionId: 'q1', score: 1, maxScore: 1 }],
    [409, 'ANSWER_NOT_FOUND', { questionId: 'blank' }],
    [400, 'SCORE_OUT_OF_RANGE', { score: 5.000001 }],
    [400, 'SCORE_OUT_OF_RANGE', { score: 8, maxScore: 10 }],
    [400, 'SCORE_OUT_OF_RANGE', { score: 4, maxScore: 10 }],
    [400, 'VALIDATION_FAILED', { score: -1 }],
    [400, 'VALIDATION_FAILED', { score: '4' }],
    [400, 'VALIDATION_FAILED', { score: undefined }],
    [400, 'VALIDATION_FAILED', { sourceService: 'exam-service' }],
    [400, 'VALIDATION_FAILED', { type: 'ai.essay_grade.handoff.v2' }],
    [400, 'VALIDATION_FAILED', { feedback: 'x'.repeat(20_001) }],
    [400, 'VALIDATION_FAILED', { criteria: Array.from({ length: 51 }, () => ({ id: 'c' })) }],
    [400, 'VALIDATION_FAILED', { occurredAt: 'yesterday' }],
  ];
  for (const [status, code, change] of cases) {
    t.match(
      await client.handOff(id, { sourceEventId, ...change }),
      { status, json: { code } },
      JSON.stringify(change).slice(0, 60),
    );
  }
  t.match(await client.handOff('missing', { sourceEventId }), { status: 404, json: { code: 'ATTEMPT_NOT_FOUND' } });
  t.equal((await student.get(id)).data.eventCount, before);
  t.match(await client.handOff(id, { sourceEventId }), { status: 200, data: { applied: true } });
});

t.test('fields a producer adds are dropped and never stored', async (t) => {
  const { id } = await graded();
  const canary = `canary-${randomUUID()}`;
  const criteria = [{ id: 'c1', score: 1, maxScore: 2, extra: canary }];
  t.match(await client.handOff(id, { criteria, extra: canary, $set: { a: canary } }), {
    status: 200,
    data: { applied: true },
  });
  for (const { name } of await cluster.mongo.listCollections().toArray()) {
    for await (const row of cluster.mongo.collection(name).find({})) {
      if (JSON.stringify(row).includes(canary)) t.fail(`stored in ${name}`);
    }
  }
});

t.test('credentials come before everything', async (t) => {
  const target = '/v1/attempts/missing/essay-grade-handoffs';
  const token = cluster.tokens.internal;
  const faults: Record<string, Record<string, string | readonly string[]>> = {
    none: {},
    'no token': { 'x-internal-service': 'ai-classifier-service' },
    'a wrong token': { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': `${token}x` },
    'another sender': { 'x-internal-service': 'exam-service', 'x-internal-token': token },
    'the token twice': { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': [token, token] },
    'an identity instead': { 'x-user-id': 'admin-1', 'x-user-role': 'ADMIN' },
  };
  for (const [name, headers] of Object.entries(faults)) {
    const reply = await client.call('POST', target, { headers, body: '{' });
    t.match(reply, { status: 401, json: { code: 'ATTEMPT_INTERNAL_UNAUTHORIZED' } }, name);
  }
  const headers = { 'x-internal-service': 'ai-classifier-service', 'x-internal-token': '' };
  const closed = await client.call('POST', target, { door: 3, headers, body: '{' });
  t.match(closed, { status: 503, json: { code: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED' } });
  const start = { ...headers, 'x-internal-service': 'api-gateway', 'x-exam-runtime-decision-source': 'exam-service' };
  t.match(await client.call('POST', '/v1/exams/e/start', { door: 3, headers: start, body: {} }), {
    status: 403,
    json: { code: 'ATTEMPT_START_UNTRUSTED' },
  });
});
