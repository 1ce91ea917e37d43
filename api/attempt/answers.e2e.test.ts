import t from 'tap';
import { EVENT_TAIL_CAP } from '#shared/attempt/limits.ts';
import { attemptClient, choice, essay, numeric, shortText, statements } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { closeExam } from '#testing/stored/stored.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, { inside: true, workers: ['grading'], neighbours: false });
const client = await attemptClient(cluster);
const QUESTIONS = [
  choice('one'),
  choice('many', { type: 'MULTIPLE_CHOICE', answerKey: { correctOptionIds: ['a', 'b'] } }),
  statements('group', [true, false, true, false]),
  shortText('text', ['x']),
  numeric('number', [{ value: 1 }]),
  essay(),
];
const stated = (statementId: string, value: unknown) => ({ statementId, value });
const sit = (exam: object = {}) => client.sitting({ exam: { ...exam }, questions: QUESTIONS });

/** Moves the attempt's deadline to `agoMs` before now. */
async function expire(id: string, agoMs: number): Promise<Date> {
  const deadlineAt = new Date(Date.now() - agoMs);
  await cluster.mongo.collection<{ _id: string }>('attempts').updateOne({ _id: id }, { $set: { deadlineAt } });
  return deadlineAt;
}

t.test('returns the saved answer alone to a client that prefers a minimal reply', async (t) => {
  const { student, id, attempt } = await sit();
  const minimal = { prefer: 'return=minimal' };
  const long = 'Bài luận dài. '.repeat(6_000);
  for (const [questionId, answer] of [
    ['one', { selectedOptionIds: ['b'] }],
    ['text', { textAnswer: ' x ' }],
    ['essay', { textAnswer: long }],
    ['essay', { textAnswer: 'ngắn' }],
  ] as const) {
    const reply = await student.save(id, { questionId, answer }, minimal);
    t.equal(reply.headers['preference-applied'], 'return=minimal');
    const { serverTime, ...data } = reply.data;
    t.ok(Math.abs(Date.parse(serverTime) - Date.parse(attempt.serverTime)) < 3_600_000);
    const whole = (await student.get(id)).data;
    const stored = whole.answers.find((one: { questionId: string }) => one.questionId === questionId);
    t.strictSame(data, { id, status: 'IN_PROGRESS', deadlineAt: attempt.deadlineAt, answer: stored });
    t.same(stored.answer, answer);
  }
  const refused = await student.save(id, { questionId: 'one', selectedOptionIds: ['zz'] }, minimal);
  t.match(refused, { status: 400, json: { code: 'VALIDATION_FAILED' } });
  t.equal(refused.headers['preference-applied'], undefined);
  // The tail of events moves to rows meanwhile, and a text that is stored in a row of its own is replaced.
  for (let n = 0; n < EVENT_TAIL_CAP + 5; n++)
    await student.save(id, { questionId: 'text', textAnswer: `${n}` }, minimal);
  const events: { metadata: { serverVersion?: number } }[] = (await student.events(id)).data;
  t.strictSame(
    events.slice(-EVENT_TAIL_CAP).map(({ metadata }) => metadata.serverVersion),
    Array.from({ length: EVENT_TAIL_CAP }, (_, n) => n + 7),
    'no event is lost',
  );
  const stale = { questionId: 'text', textAnswer: 'alt', clientVersion: 1 };
  t.match(await student.save(id, stale, minimal), { status: 409, json: { code: 'ANSWER_VERSION_CONFLICT' } });
  const whole = await student.save(id, { questionId: 'one', selectedOptionIds: ['a'] });
  t.equal(whole.data.questions.length, QUESTIONS.length);
  t.equal(whole.headers['preference-applied'], undefined);
  await expire(id, 5_000);
  t.match(await student.save(id, stale, minimal), { status: 409, json: { code: 'ATTEMPT_DEADLINE_EXPIRED' } });
});

t.test('saves every kind of answer, nested or at the top level', async (t) => {
  const { student, id, attempt } = await sit();
  const kinds: [string, object][] = [
    ['one', { selectedOptionIds: ['b'] }],
    ['many', { selectedOptionIds: ['c', 'a'] }],
    ['group', { statementAnswers: [stated('s2', null), stated('s1', true)] }],
    ['text', { textAnswer: ' x ' }],
    ['number', { textAnswer: '1,5' }],
    ['essay', { textAnswer: '' }],
  ];
  for (const [questionId, answer] of kinds) {
    const nested = await student.save(id, { questionId, answer });
    t.match(nested, { status: 200, json: { success: true, message: 'OK' } }, questionId);
    const [saved] = nested.data.answers.filter((one: { questionId: string }) => one.questionId === questionId);
    t.same(Object.keys(saved).sort(), [
      'answer',
      'clientVersion',
      'isCorrect',
      'questionId',
      'score',
      'serverVersion',
      'updatedAt',
    ]);
    t.match(saved, { answer, isCorrect: null, score: null, serverVersion: 1, clientVersion: 0 });
    const top = await student.save(id, { questionId, ...answer });
    t.match(
      top.data.answers.find((one: { questionId: string }) => one.questionId === questionId),
      { answer, serverVersion: 2 },
    );
  }
  const own = attempt.questions.find((question: { questionId: string }) => question.questionId === 'text').id;
  t.match(await student.save(id, { questionId: own, textAnswer: 'by the attempt question' }), { status: 200 });
  const { data } = await student.get(id);
  t.equal(data.answers.length, kinds.length);
  const text = data.answers.find((one: { questionId: string }) => one.questionId === 'text');
  t.match(text, { answer: { textAnswer: 'by the attempt question' }, serverVersion: 3 });
  t.equal(data.eventCount, 14);
  const last = data.events.at(-1);
  t.match(last, { type: 'SAVE_ANSWER' });
  t.same(last.metadata, { questionId: 'text', serverVersion: 3, clientVersion: 0, sourceTabId: null });
});

t.test('stores a text answer byte for byte', async (t) => {
  const { student, id } = await sit();
  const texts = [
    '',
    ' ',
    '\n\t',
    '$',
    '$where',
    '$$ROOT',
    '$a.b',
    '{"$ne":1}',
    'a\u0000b',
    '\u0000',
    '👩‍👩‍👧‍👦 é e\u0301',
    '\ufeffx',
    '</script>',
    '$x'.repeat(3_000),
    'ấ'.repeat(100_000),
    '😀'.repeat(100_000),
    'x'.repeat(100_000),
  ];
  for (const textAnswer of texts) {
    const reply = await student.save(id, { questionId: 'essay', textAnswer });
    t.equal(reply.status, 200);
    t.ok(
      reply.data.answers[0].answer.textAnswer === textAnswer,
      `the reply contains ${JSON.stringify(textAnswer.slice(0, 20))}`,
    );
    t.ok((await student.get(id)).data.answers[0].answer.textAnswer === textAnswer, 'GET returns the text unchanged');
  }
  const INVALID = { status: 400, json: { code: 'VALIDATION_FAILED' } };
  t.match(await student.save(id, { questionId: 'essay', textAnswer: 'x'.repeat(100_001) }), INVALID);
  t.match(await student.save(id, { questionId: 'essay', textAnswer: '😀'.repeat(100_001) }), INVALID);
  for (const body of [
    '{"questionId":"essay","textAnswer":"\\ud800"}',
    '{"questionId":"essay","textAnswer":"\\udc00x"}',
  ]) {
    t.match(await student.save(id, body, { 'content-type': 'application/json' }), INVALID, 'a lone surrogate');
  }
  const { answers, eventCount } = (await student.get(id)).data;
  t.equal(answers[0].serverVersion, texts.length, 'a refused save writes nothing');
  t.equal(eventCount, 1 + texts.length);
});

t.test('a stale version gets the stored answer and writes nothing', async (t) => {
  const { student, id } = await sit();
  const save = (clientVersion: number | undefined, option: string) =>
    student.save(id, { questionId: 'one', selectedOptionIds: [option], clientVersion, sourceTabId: 'tab-7' });
  t.match((await save(undefined, 'a')).data.answers[0], { serverVersion: 1, clientVersion: 0 });
  t.match((await save(1, 'b')).data.answers[0], { serverVersion: 2, clientVersion: 1 });
  const { json, status } = await save(1, 'c');
  t.match({ status, json }, { status: 409, json: { success: false, code: 'ANSWER_VERSION_CONFLICT' } });
  t.same(Object.keys(json.data), ['answer']);
  t.match(json.data.answer, {
    questionId: 'one',
    answer: { selectedOptionIds: ['b'] },
    serverVersion: 2,
    clientVersion: 1,
    isCorrect: null,
    score: null,
  });
  t.match((await student.get(id)).data, { eventCount: 3, answers: [{ serverVersion: 2 }] });
  t.match((await save(0, 'c')).data.answers[0], { serverVersion: 3 }, '0 names no version');
  t.match((await save(9, 'a')).data.answers[0], { serverVersion: 4, clientVersion: 9 }, 'a higher one is not stale');
  t.match(await save(-1, 'a'), { status: 400, json: { code: 'VALIDATION_FAILED' } });
});

t.test('refuses an answer that does not fit its question', async (t) => {
  const { student, id } = await sit();
  const cases: [string, object, string][] = [
    [
      'nested and at the top',
      { questionId: 'one', answer: { selectedOptionIds: ['a'] }, selectedOptionIds: ['a'] },
      '/answer',
    ],
    ['no answer', { questionId: 'one' }, ''],
    ['an empty answer', { questionId: 'one', answer: {} }, '/answer'],
    ['two kinds', { questionId: 'one', selectedOptionIds: ['a'], textAnswer: 'a' }, ''],
    ['text for a choice', { questionId: 'one', textAnswer: 'a' }, '/textAnswer'],
    ['options for a text', { questionId: 'essay', answer: { selectedOptionIds: ['a'] } }, '/answer/selectedOptionIds'],
    ['two options', { questionId: 'one', selectedOptionIds: ['a', 'b'] }, '/selectedOptionIds'],
    ['an unknown option', { questionId: 'many', selectedOptionIds: ['a', 'z'] }, '/selectedOptionIds/1'],
    [
      'an unknown statement',
      { questionId: 'group', statementAnswers: [stated('s9', true)] },
      '/statementAnswers/0/statementId',
    ],
    [
      'a statement twice',
      { questionId: 'group', statementAnswers: [stated('s1', true), stated('s1', true)] },
      '/statementAnswers/1/statementId',
    ],
    [
      'a value that is none',
      { questionId: 'group', statementAnswers: [stated('s1', 'true')] },
      '/statementAnswers/0/value',
    ],
    ['no questionId', { textAnswer: 'x' }, '/questionId'],
    ['an unknown field', { questionId: 'one', selectedOptionIds: ['a'], isCorrect: true }, '/isCorrect'],
    [
      'an unknown field of the answer',
      { questionId: 'one', answer: { selectedOptionIds: ['a'], score: 9 } },
      '/answer/score',
    ],
  ];
  for (const [name, body, path] of cases) {
    const { status, json } = await student.save(id, body);
    t.match({ status, json }, { status: 400, json: { code: 'VALIDATION_FAILED' } }, name);
    t.ok(
      json.details.some((fault: { path: string }) => fault.path === path),
      `${name}: ${JSON.stringify(json.details)}`,
    );
  }
  const nulls = { answer: null, statementAnswers: null, textAnswer: null, clientVersion: null, sourceTabId: null };
  t.match(
    await student.save(id, { questionId: 'one', selectedOptionIds: ['a', 'a'], ...nulls }),
    { status: 200 },
    'null is absent; a selection counts once',
  );
  t.match((await student.get(id)).data, { eventCount: 2 });
});

t.test('a save checks owner, lock, deadline, question, kind and version in this order', async (t) => {
  const { student, id } = await sit();
  const wrong = { questionId: 'nope', textAnswer: 'x' };
  await student.save(id, { questionId: 'one', selectedOptionIds: ['a'] });
  await student.save(id, { questionId: 'one', selectedOptionIds: ['a'] });
  t.match(await client.student().save('no-such-attempt', wrong), { status: 404, json: { code: 'ATTEMPT_NOT_FOUND' } });
  t.match(await client.student().save(id, wrong), { status: 403, json: { code: 'FORBIDDEN' } }, 'another student');
  for (const role of ['TEACHER', 'ADMIN', 'PARENT']) {
    t.match(
      await client.as(role, role === 'TEACHER' ? 'teacher-1' : student.id).save(id, wrong),
      { status: 403 },
      role,
    );
  }
  const QUESTION = {
    status: 400,
    json: { code: 'QUESTION_NOT_IN_ATTEMPT', message: 'Câu hỏi không thuộc lượt làm bài này.' },
  };
  t.match(await student.save(id, wrong), QUESTION);
  t.match(await student.save(id, { questionId: 'one', textAnswer: 'x', clientVersion: 1 }), {
    status: 400,
    json: { code: 'VALIDATION_FAILED' },
  });
  t.match(await student.save(id, { questionId: 'one', selectedOptionIds: ['z'], clientVersion: 1 }), { status: 400 });
  t.match(await student.save(id, { questionId: 'one', selectedOptionIds: ['a'], clientVersion: 1 }), { status: 409 });
  const deadlineAt = await expire(id, 5_000);
  const late = await student.save(id, wrong);
  t.match(late, { status: 409, json: { code: 'ATTEMPT_DEADLINE_EXPIRED', message: 'Exam duration expired' } });
  t.match(await student.save(id, wrong), {
    status: 409,
    json: { code: 'ATTEMPT_LOCKED', message: 'Attempt is locked' },
  });
  const graded = await until('the attempt is graded', async () => {
    const { data } = await student.get(id);
    return data.status === 'GRADED' && data;
  });
  t.match(graded, { submittedBy: 'TIMEOUT', submittedAt: deadlineAt.toISOString(), totalScore: 1 });
  t.equal(
    graded.durationSeconds,
    Math.max(0, Math.floor((deadlineAt.getTime() - Date.parse(graded.startedAt)) / 1_000)),
  );
  t.match(graded.events.at(-1), {
    type: 'TIMEOUT',
    metadata: { source: 'TIMEOUT', totalScore: 1, remainingSeconds: 0 },
  });
  t.same(graded.events.filter(({ type }: { type: string }) => type === 'TIMEOUT' || type === 'SUBMIT').length, 1);
  t.match(await client.student().save(id, wrong), { status: 403 }, 'the owner is checked before the lock');
});

t.test('a save is stored before the exam closes and refused after', async (t) => {
  const { student, id } = await sit();
  t.match(await student.save(id, { questionId: 'one', selectedOptionIds: ['a'] }), { status: 200 });
  const closeTime = (await closeExam(cluster.mongo, id, new Date(Date.now() + 500))).toISOString();
  let stored = 1;
  const refusal = await until('the exam closes', async () => {
    const reply = await student.save(id, { questionId: 'one', selectedOptionIds: ['a'] });
    if (reply.status !== 200) return reply;
    stored += 1;
    t.ok(reply.data.answers[0].updatedAt < closeTime, 'nothing is stored at or after the close');
    return undefined;
  });
  t.match(refusal, { status: 409, json: { code: 'ATTEMPT_DEADLINE_EXPIRED' } });
  t.ok(refusal.json.requestId);
  const graded = await until('graded', async () => {
    const { data } = await student.get(id);
    return data.status === 'GRADED' && data;
  });
  t.match(graded, { submittedAt: closeTime, submittedBy: 'TIMEOUT' });
  t.equal(graded.answers[0]?.serverVersion ?? 0, stored);
});

t.test('refuses a save that would exceed the size limit of the attempt’s answers', async (t) => {
  const { student, id } = await client.sitting({ questions: [essay('e1'), essay('e2')] });
  const save = (questionId: string, letter: string) =>
    student.save(id, { questionId, textAnswer: letter.repeat(100_000) });
  t.match(await save('e1', 'x'), { status: 200 });
  // Pretends that the other answers are long: two more such texts exceed 4 MiB.
  const answerBytes = 4 * 1_024 * 1_024 - 150_000;
  await cluster.mongo.collection<{ _id: string }>('attempts').updateOne({ _id: id }, { $set: { answerBytes } });
  t.match(await save('e2', 'x'), { status: 200 });
  t.match(await save('e2', 'y'), { status: 200 }, 'replacing one of the same length');
  await cluster.mongo
    .collection<{ _id: string }>('attempts')
    .updateOne({ _id: id }, { $inc: { answerBytes: 100_000 } });
  t.match(await student.save(id, { questionId: 'e1', textAnswer: 'ế'.repeat(80_000) }), {
    status: 413,
    json: { code: 'ATTEMPT_TOO_LARGE' },
  });
  t.match((await student.get(id)).data, { eventCount: 4, answers: [{ serverVersion: 1 }, { serverVersion: 2 }] });
  const { status } = await student.save(id, { questionId: 'e1', textAnswer: 'x', sourceTabId: 'y'.repeat(1_100_000) });
  t.equal(status, 413, 'a body over 1 MiB');
});

const FIELD = {
  one: 'selectedOptionIds',
  many: 'selectedOptionIds',
  group: 'statementAnswers',
  text: 'textAnswer',
  number: 'textAnswer',
  essay: 'textAnswer',
} as const;
const FILLED = { selectedOptionIds: ['a'], statementAnswers: [stated('s1', true)], textAnswer: 'x' };
const EMPTIES: Record<string, unknown>[] = [
  { selectedOptionIds: [], statementAnswers: [], textAnswer: '' },
  { selectedOptionIds: null, statementAnswers: null, textAnswer: null },
  { selectedOptionIds: null, statementAnswers: [], textAnswer: '' },
];

t.test('ignores empty members beside a filled one, and takes all-empty members as an empty answer', async (t) => {
  const { student, id } = await sit();
  for (const [questionId, field] of Object.entries(FIELD)) {
    const stored = async (body: Record<string, unknown>) => {
      const { status, data } = await student.save(id, { questionId, ...body });
      if (status !== 200) return status;
      return data.answers.find((one: { questionId: string }) => one.questionId === questionId).answer;
    };
    const filled = { [field]: FILLED[field] };
    const blank = { [field]: field === 'textAnswer' ? '' : [] };
    const wrong = field === 'textAnswer' ? { selectedOptionIds: ['a'] } : { textAnswer: 'x' };
    for (const empty of EMPTIES) {
      t.same(await stored({ answer: { ...empty, ...filled } }), filled, `${questionId}, nested`);
      t.same(await stored({ answer: empty }), blank, `${questionId}, nested and empty`);
      t.same(await stored({ ...empty, ...filled }), filled, `${questionId}, at the top`);
      t.same(await stored(empty), blank, `${questionId}, at the top and empty`);
      t.same(await stored({ ...empty, answer: filled }), filled, `${questionId}, nested beside empty members`);
      t.equal(
        await stored({ answer: { ...empty, ...wrong } }),
        400,
        `${questionId}, a filled member of the wrong kind`,
      );
      t.equal(await stored({ ...empty, ...filled, ...wrong }), 400, `${questionId}, two filled members`);
      t.equal(await stored({ ...empty, ...filled, answer: filled }), 400, `${questionId}, filled in both places`);
    }
  }
});
