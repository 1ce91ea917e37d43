import { randomUUID } from 'node:crypto';
import t from 'tap';
import { attemptClient, choice, essay } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  inside: true,
  workers: ['essayhandoff'],
  asleep: ['grading'],
  doors: 3,
  envOf: { web2: { ATTEMPT_GRADING_WAIT_MS: '200' }, web3: { INTERNAL_SERVICE_TOKEN: '' } },
});
const client = await attemptClient(cluster);
/** Client of the door that waits only briefly for a worker. */
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

// Runs first, while no grading worker is running.
const GATEWAY = { 'x-internal-service': 'api-gateway' };
const actor = (role: string, id: string) => ({ 'x-user-id': id, 'x-user-role': role });

await t.test('before the attempt is graded a valid handoff waits and an invalid one is refused', async (t) => {
  const { student, id } = await sitting(hasty);
  t.match(await client.sendHandoff(id), { status: 409, json: { code: 'ATTEMPT_NOT_SUBMITTED' } });
  t.equal((await student.submit(id)).status, 202);
  const sourceEventId = randomUUID();
  const late = await hasty.sendHandoff(id, { sourceEventId });
  t.same(Object.keys(late.data).sort(), ['applied', 'attempt', 'sourceEventId']);
  t.match(late, { status: 202, data: { applied: null, sourceEventId, attempt: { id, status: 'SUBMITTED' } } });
  t.match(
    await hasty.sendHandoff(id, { sourceEventId }),
    { status: 202, data: { applied: null } },
    'a repeat waits likewise',
  );
  t.match(await client.sendHandoff(id, { questionId: 'q1', score: 1 }), {
    status: 409,
    json: { code: 'QUESTION_NOT_MANUAL' },
  });
  await cluster.start('grading');
  const applied = await until('the handoff is applied', async () => {
    const { data } = await student.get(id);
    return data.pendingManualCount === 1 && data;
  });
  t.match(applied, { status: 'GRADED', totalScore: 5 });
  t.match(await client.sendHandoff(id, { sourceEventId }), { status: 200, data: { applied: false } });
  const handoffs = (await student.events(id)).data.filter(
    ({ type }: { type: string }) => type === 'ESSAY_GRADE_HANDOFF',
  );
  t.equal(handoffs.length, 1);
});

t.test('a handoff sets the score, recomputes the totals and appends its event, once', async (t) => {
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
  const first = await client.sendHandoff(id, change);
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
  const replay = await client.sendHandoff(id, { ...change, score: 1 });
  t.match(replay, {
    status: 200,
    data: { applied: false, attempt: { totalScore: 5.5, eventCount: first.data.attempt.eventCount } },
  });
  const own = attempt.questions.find(({ questionId }: { questionId: string }) => questionId === 'essay').id;
  const regrade = await client.sendHandoff(id, { questionId: own, score: 5 });
  t.match(regrade.data, {
    applied: true,
    attempt: { totalScore: 6, correctCount: 2, wrongCount: 1, pendingManualCount: 1 },
  });
  const manual = await client.sendHandoff(id, { questionId: 'manual', score: 0, maxScore: 2 });
  t.match(manual.data, {
    applied: true,
    attempt: { totalScore: 6, correctCount: 2, wrongCount: 2, pendingManualCount: 0 },
  });
  t.match((await student.result(id)).data, { scorePercent: (6 / 13) * 100 });
  t.match(
    await client.sendHandoff((await graded()).id, change),
    { data: { applied: true } },
    'the id counts per attempt',
  );
  t.notOk(
    cluster.neighbours.calls.some(({ path }) => /usage|wallet/.test(path)),
    'no usage or wallet call',
  );
});

t.test('each handoff rule has its code, and a refused event id may be sent again', async (t) => {
  const { student, id } = await graded();
  const before = (await student.get(id)).data.eventCount;
  const sourceEventId = randomUUID();
  const cases: [number, string, object][] = [
    [400, 'QUESTION_NOT_IN_ATTEMPT', { questionId: 'other' }],
    [409, 'QUESTION_NOT_MANUAL', { questionId: 'q1', score: 1, maxScore: 1 }],
    [409, 'ANSWER_NOT_FOUND', { questionId: 'blank' }],
    [400, 'SCORE_OUT_OF_RANGE', { score: 5.000001 }],
    [400, 'SCORE_OUT_OF_RANGE', { score: 8, maxScore: 10 }],
    [400, 'SCORE_OUT_OF_RANGE', { score: 4, maxScore: 3 }],
    [400, 'SCORE_OUT_OF_RANGE', { score: -1 }],
    [400, 'VALIDATION_FAILED', { maxScore: -1 }],
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
      await client.sendHandoff(id, { sourceEventId, ...change }),
      { status, json: { code } },
      JSON.stringify(change).slice(0, 60),
    );
  }
  t.match(await client.sendHandoff('missing', { sourceEventId }), { status: 404, json: { code: 'ATTEMPT_NOT_FOUND' } });
  t.equal((await student.get(id)).data.eventCount, before);
  t.match(await client.sendHandoff(id, { sourceEventId }), { status: 200, data: { applied: true } });
});

t.test('a machine’s grade does not replace a person’s, nor an earlier grade a later one', async (t) => {
  const { student, id } = await graded();
  const [early, late] = ['2026-11-20T08:00:00Z', '2026-11-20T08:00:01Z'];
  const byTeacher = { ...GATEWAY, ...actor('TEACHER', 'teacher-1') };
  const machine = { sourceEventId: randomUUID(), score: 1, occurredAt: late };
  t.match(await client.sendHandoff(id, machine), { status: 200, data: { applied: true } });
  const older = { sourceEventId: randomUUID(), score: 2, occurredAt: early };
  const person = { sourceEventId: randomUUID(), score: 3, occurredAt: early };
  const newer = { sourceEventId: randomUUID(), score: 4, occurredAt: late };

  t.match(await client.sendHandoff(id, older), { status: 200, data: { applied: false, supersededBy: 'NEWER' } });
  t.match(await client.sendHandoff(id, person, byTeacher), { status: 200, data: { applied: true } });
  for (const about of ['first', 'replay']) {
    const reply = await client.sendHandoff(id, newer);
    t.match(reply, { status: 200, data: { applied: false, supersededBy: 'PERSON' } }, about);
    t.match(reply.data.attempt, { totalScore: 4, eventCount: 9 });
  }
  const handoffs = (await student.events(id)).data.filter(
    ({ type }: { type: string }) => type === 'ESSAY_GRADE_HANDOFF',
  );
  t.same(
    handoffs.map(({ metadata }: { metadata: { score: number; applied?: false } }) => [
      metadata.score,
      metadata.applied,
    ]),
    [
      [1, undefined],
      [2, false],
      [3, undefined],
      [4, false],
    ],
  );
  t.match((await student.get(id)).data.answers[1], { score: 3, isCorrect: false });
});

t.test('a handoff’s score is in points of the question, regardless of maxScore', async (t) => {
  const { student, id } = await graded();
  for (const [score, maxScore] of [
    [4, 10],
    [3, 3],
    [5, 5.5],
    [0, 0],
  ]) {
    const { status, data } = await client.sendHandoff(id, { score, maxScore });
    t.match({ status, data }, { status: 200, data: { applied: true, attempt: { totalScore: 1 + (score ?? 0) } } });
    t.match(data.attempt.events.at(-1).metadata, { score, maxScore });
  }
  t.match((await student.get(id)).data.answers[1], { questionId: 'essay', score: 0, isCorrect: false });
});

t.test('a gateway passes on an examiner’s grade, and the event records the examiner', async (t) => {
  const { student, id } = await graded();
  const sent = [
    [actor('TEACHER', 'teacher-1'), 1],
    [actor('TEACHER', 'teacher-2'), 2],
    [actor('ADMIN', 'admin-1'), 3],
  ] as const;
  for (const [who, score] of sent) {
    const { status, data } = await client.sendHandoff(id, { score }, { ...GATEWAY, ...who });
    t.match({ status, data }, { status: 200, data: { applied: true } });
    t.match(data.attempt.events.at(-1).metadata, { score, gradedById: who['x-user-id'] });
    t.match(data.attempt, { scope: { createdById: 'teacher-1' }, resultVisible: true }, 'the examiner’s own view');
  }
  const plain = await client.sendHandoff((await graded()).id, { score: 4 }, GATEWAY);
  t.match(plain, { status: 200, data: { applied: true } }, 'a gateway may send a grade without a user id');
  t.notOk('gradedById' in plain.data.attempt.events.at(-1).metadata);
  t.notMatch(plain.text, /answerKey|"scope"/);
  const kept = (await student.events(id)).data.flatMap(
    ({ metadata }: { metadata: { gradedById?: string } }) => metadata.gradedById ?? [],
  );
  t.strictSame(kept, ['teacher-1', 'teacher-2', 'admin-1']);
});

t.test('only an examiner grades through a gateway, whatever the rest of the request is', async (t) => {
  const { student, id } = await graded();
  const sourceEventId = randomUUID();
  const refused: [number, string, Record<string, string>][] = [
    [403, 'FORBIDDEN', actor('TEACHER', 'teacher-3')],
    [403, 'FORBIDDEN', actor('TEACHER', 'class-1')],
    [403, 'FORBIDDEN', actor('STUDENT', student.id)],
    [403, 'FORBIDDEN', actor('STUDENT', 'teacher-1')],
    [403, 'FORBIDDEN', actor('PARENT', 'teacher-1')],
    [403, 'FORBIDDEN', actor('admin', 'admin-1')],
    [401, 'UNAUTHENTICATED', { 'x-user-id': 'teacher-1' }],
    [401, 'UNAUTHENTICATED', { 'x-user-role': 'ADMIN' }],
    [401, 'UNAUTHENTICATED', actor('ADMIN', 'two words')],
  ];
  for (const sender of ['api-gateway', 'ai-classifier-service']) {
    for (const [status, code, who] of refused) {
      const headers = { 'x-internal-service': sender, ...who };
      t.match(
        await client.sendHandoff(id, { sourceEventId }, headers),
        { status, json: { code } },
        JSON.stringify(who),
      );
    }
  }
  const stranger = { ...GATEWAY, ...actor('TEACHER', 'teacher-3') };
  t.match(
    await client.sendHandoff(id, { sourceEventId, questionId: 'other' }, stranger),
    { status: 403 },
    'the examiner is checked before the rules of the grade',
  );
  t.match(
    await client.sendHandoff('missing', { sourceEventId }, stranger),
    { status: 404 },
    'a missing attempt is reported first',
  );
  const wrong = { ...GATEWAY, ...actor('TEACHER', 'teacher-1'), 'x-internal-token': 'wrong' };
  t.match(await client.sendHandoff(id, { sourceEventId }, wrong), { json: { code: 'ATTEMPT_INTERNAL_UNAUTHORIZED' } });
  t.match((await student.get(id)).data, { pendingManualCount: 2 }, 'nothing was graded');
  const replayed = { sourceEventId, score: 2 };
  t.match(await client.sendHandoff(id, replayed), { status: 200, data: { applied: true } }, 'the id is still free');
  t.match(await client.sendHandoff(id, replayed, stranger), { status: 403 }, 'a replay by another examiner is refused');
});

t.test('`sourceService` of a handoff must name the classifier, whichever service sends it', async (t) => {
  const { id } = await graded();
  const reply = await client.sendHandoff(id, { sourceService: 'api-gateway' }, GATEWAY);
  t.match(reply, { status: 400, json: { code: 'VALIDATION_FAILED', details: [{ path: '/sourceService' }] } });
});

t.test('drops unknown fields of a handoff and never stores them', async (t) => {
  const { id } = await graded();
  const canary = `canary-${randomUUID()}`;
  const criteria = [{ id: 'c1', score: 1, maxScore: 2, extra: canary }];
  const sourceEventId = randomUUID();
  const sent = await client.sendHandoff(id, { sourceEventId, criteria, extra: canary, $set: { a: canary } });
  t.match(sent, { status: 200, data: { applied: true } });
  t.strictSame(sent.data.ignored, ['extra', '$set'], 'the fields of the body that have no effect');
  const replay = await client.sendHandoff(id, { sourceEventId, criteria, gradedBy: 'a' });
  t.match(replay, { status: 200, data: { applied: false } });
  t.strictSame(replay.data.ignored, ['gradedBy'], 'a replay names its own');
  t.notOk('ignored' in (await client.sendHandoff(id, { sourceEventId, criteria })).data);
  for (const { name } of await cluster.mongo.listCollections().toArray()) {
    for await (const row of cluster.mongo.collection(name).find({})) {
      if (JSON.stringify(row).includes(canary)) t.fail(`stored in ${name}`);
    }
  }
});

t.test('a handoff checks credentials before path, body and state', async (t) => {
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
