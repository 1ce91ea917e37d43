import t from 'tap';
import { attemptClient, type Person } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, {
  inside: true,
  workers: [],
  neighbours: false,
  env: { ATTEMPT_GRADING_WAIT_MS: '0' },
});
const client = await attemptClient(cluster);
const JSON_TYPE = { 'content-type': 'application/json' };

type Events = { type: string; metadata: Record<string, unknown>; createdAt: string }[];

t.test('stores a client event as it was sent', async (t) => {
  const { student, id } = await client.sitting();
  for (const type of ['QUESTION_VIEW', 'TAB_HIDDEN', 'FOCUS_RETURNED', 'NETWORK_RETRY']) {
    const { status, data } = await student.post(id, type, { type, nested: { list: [1, null, 'x'] } });
    t.equal(status, 201);
    t.same(Object.keys(data).sort(), ['attemptId', 'createdAt', 'id', 'metadata', 'type']);
    t.match(data, { attemptId: id, type, metadata: { type, nested: { list: [1, null, 'x'] } } });
  }
  t.match((await student.post(id, 'TAB_HIDDEN')).data, { metadata: {} });
  t.same((await student.post(id, 'TAB_HIDDEN', null)).data.metadata, {});
  const { data } = await student.events(id);
  t.same(
    data.map(({ type }: { type: string }) => type),
    ['START', 'QUESTION_VIEW', 'TAB_HIDDEN', 'FOCUS_RETURNED', 'NETWORK_RETRY', 'TAB_HIDDEN', 'TAB_HIDDEN'],
  );
  await student.submit(id);
  t.match(await student.post(id, 'QUESTION_VIEW', { late: true }), { status: 201 }, 'in any state');
});

t.test('stores metadata keys that are special to MongoDB or JavaScript as plain data', async (t) => {
  const { student, id } = await client.sitting();
  const metadata = {
    $set: { status: 'GRADED' },
    $where: '1',
    'a.b': { 'c.d': 1, $gt: '' },
    '': 'empty',
    constructor: 'text',
    toString: 1,
    hasOwnProperty: null,
    length: 0,
    '0': 'zero',
    'ključ ấ 😀': ['$inc', '$$NOW', '$eventSeq'],
    text: 'a\u0000b',
  };
  t.strictSame((await student.post(id, 'QUESTION_VIEW', metadata)).data.metadata, metadata);
  const large = { ...metadata, filler: 'x'.repeat(7_000) };
  t.strictSame((await student.post(id, 'QUESTION_VIEW', large)).data.metadata, large);
  t.strictSame((await student.events(id)).data.map((event: { metadata: unknown }) => event.metadata).slice(1), [
    metadata,
    large,
  ]);
  t.strictSame((await student.get(id)).data.events.at(-1).metadata, large);
});

t.test('refuses an invalid client event and writes nothing', async (t) => {
  const { student, id } = await client.sitting();
  const raw = (body: string) =>
    client.call('POST', `/v1/attempts/${id}/events`, {
      headers: { 'x-user-id': student.id, 'x-user-role': 'STUDENT', ...JSON_TYPE },
      body,
    });
  for (const type of ['START', 'SAVE_ANSWER', 'SUBMIT', 'ESSAY_GRADE_HANDOFF', 'tab_hidden', '', 1, null]) {
    t.match(await student.post(id, type as string), { status: 400, json: { code: 'VALIDATION_FAILED' } }, `${type}`);
  }
  for (const metadata of ['text', 1, [], { filler: 'x'.repeat(8_192) }]) {
    const { json } = await student.post(id, 'TAB_HIDDEN', metadata);
    t.match(json, { code: 'VALIDATION_FAILED', details: [{ path: '/metadata' }] });
  }
  t.match(await student.post(id, 'TIMEOUT', { filler: 'x'.repeat(8_192) }), { status: 400 });
  for (const metadata of ['{"__proto__":{"a":1}}', '{"a":{"__proto__":1}}', '{"constructor":{"prototype":{}}}']) {
    t.match(await raw(`{"type":"TAB_HIDDEN","metadata":${metadata}}`), { status: 400, json: { code: 'INVALID_JSON' } });
  }
  t.match(await raw('{"type":"TAB_HIDDEN","metadata":{"n":1e400}}'), {
    status: 400,
    json: { code: 'VALIDATION_FAILED' },
  });
  t.match(await raw('{"type":"TAB_HIDDEN","metadata":{"n":"\\ud800"}}'), { status: 400 });

  const body = { type: 'TAB_HIDDEN' };
  t.match(await client.call('POST', `/v1/attempts/${id}/events`, { body }), {
    status: 401,
    json: { code: 'UNAUTHENTICATED' },
  });
  const others: [string, Person][] = [
    ['another student', client.student()],
    ['a parent', client.as('PARENT', student.id)],
    ['the teacher', client.teacher('teacher-1')],
    ['an admin', client.admin()],
  ];
  for (const [name, other] of others)
    t.match(await other.post(id, 'TIMEOUT'), { status: 403, json: { code: 'FORBIDDEN' } }, name);
  t.match(await student.post('missing', 'TAB_HIDDEN'), { status: 404, json: { code: 'ATTEMPT_NOT_FOUND' } });
  t.match(await student.post('no%20id', 'TAB_HIDDEN'), { status: 404 });
  t.match((await student.get(id)).data, { eventCount: 1, status: 'IN_PROGRESS' });
  const edge = { filler: 'x'.repeat(8_192 - '{"filler":""}'.length) };
  t.match(await student.post(id, 'TAB_HIDDEN', edge), { status: 201 }, 'exactly 8 KiB');
});

t.test('/events returns a whole long log in order, other routes its newest 200 or 20 events', async (t) => {
  const student = client.student();
  const examId = 'exam-long-log';
  const { data } = await student.start(examId, {}, { key: 'long' });
  const { id } = data.attempt;
  for (let n = 1; n <= 230; n++) {
    // Each tenth event is too long for the attempt document; each twenty-third is a save.
    const filler = n % 10 === 0 ? 'x'.repeat(600) : '';
    const reply =
      n % 23 === 0
        ? await student.save(id, { questionId: 'q1', selectedOptionIds: ['a'], sourceTabId: `n${n}` })
        : await student.post(id, 'QUESTION_VIEW', { n, filler });
    t.ok(reply.status < 300);
  }
  const numbers = (events: Events) =>
    events.map(({ metadata }) => metadata.n ?? Number(String(metadata.sourceTabId).slice(1)));
  const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const all = await student.events(id);
  t.equal(all.data.length, 231);
  t.match(all.data[0], { type: 'START' });
  t.same(numbers(all.data.slice(1)), range(1, 230));
  t.same(
    all.data.map(({ createdAt }: { createdAt: string }) => createdAt),
    all.data.map(({ createdAt }: { createdAt: string }) => createdAt).sort(),
    'ascending',
  );
  t.equal(new Set(all.data.map((event: { id: string }) => event.id)).size, 231);
  const detail = (await student.get(id)).data;
  t.equal(detail.eventCount, 231);
  t.same(numbers(detail.events), range(31, 230));
  t.strictSame(detail.events, all.data.slice(31), 'the same events, ids and all');
  const replay = (await student.start(examId, {}, { key: 'long' })).data.attempt;
  t.same(numbers(replay.events), range(211, 230));
  t.equal(replay.eventCount, 231);
  const saved = (await student.save(id, { questionId: 'q1', selectedOptionIds: ['b'], sourceTabId: 'n231' })).data;
  t.same(numbers(saved.events), range(212, 231));
  t.same(numbers((await student.submit(id)).data.events), range(32, 231));
});

t.test('the owner, the attempt’s teachers and admins may read an event log', async (t) => {
  const { student, id } = await client.sitting();
  const readers: [number, Person][] = [
    [200, student],
    [200, client.admin()],
    [200, client.teacher('teacher-1')],
    [200, client.teacher('teacher-2')],
    [403, client.student()],
    [403, client.teacher('teacher-3')],
    [403, client.teacher(student.id)],
    [403, client.as('STUDENT', 'teacher-1')],
    [403, client.as('PARENT', student.id)],
    [403, client.as('admin', 'admin-1')],
  ];
  for (const [status, reader] of readers) {
    for (const read of [reader.get, reader.events, reader.result]) t.equal((await read(id)).status, status);
  }
  t.match(await student.get('missing'), { status: 404, json: { code: 'ATTEMPT_NOT_FOUND' } });
  t.equal((await client.call('GET', `/v1/attempts/${id}`)).status, 401);
});
