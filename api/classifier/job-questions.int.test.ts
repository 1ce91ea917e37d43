import t from 'tap';
import { aiJobBatches } from '#infra/mongo/classifier/collections.ts';
import { commandsOfJob, runNewestRound } from '#testing/actors/classifier-scene.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { jobBody, openJobDoor } from '#testing/doors/job-door.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { bankQuestion, openNeighbours } from '#testing/neighbours/neighbours.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';

const mongo = await openTestMongo(t);

t.test('a question with text or numbers that no request may have is an error of its own', async (t) => {
  const bank = await openNeighbours(t);
  const { as } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: undefined } });
  const teacher = as('TEACHER', 'hoa');
  const bad = ['"\\ud83d"', '"a\\u0000"', '1e999', '{"\\udc00":1}'];
  const written = jobBody().questionIds.map((id, index) =>
    JSON.stringify({ ...bankQuestion(id), odd: 'ODD' }).replace('"ODD"', bad[index] ?? '"\\ud83d\\ude00"'),
  );
  bank.answer = () => ({ body: `{"success":true,"data":{"questions":[${written.join()}]}}` });
  const { job } = (await teacher.create()).data;
  await runNewestRound(mongo, job.id);
  const { items } = (await teacher.errors(job.id)).data;
  t.strictSame(
    items.map(({ questionId, code }: { questionId: string; code: string }) => [questionId, code]),
    ['q1', 'q2', 'q3', 'q4'].map((id) => [id, 'AI_QUESTION_CONTEXT_FAILED']),
  );
  t.match((await teacher.get(job.id)).data.job, { status: 'COMPLETED', progress: { succeeded: 3, failed: 4 } });
});

t.test('the question bank is called once on behalf of the caller, and the job stores its questions', async (t) => {
  const bank = await openNeighbours(t);
  const neighbour = { url: bank.url, token: 'bank-token' };
  const { as } = await openJobDoor(t, mongo, { questionBank: neighbour });
  const teacher = as('ADMIN', 'giang', 'org-9');
  bank.answer = () => ({
    body: {
      success: true,
      data: {
        questions: [
          ...jobBody().questionIds.slice(0, 6).map(bankQuestion),
          bankQuestion('q1'),
          bankQuestion('not-asked'),
          { content: 'no id' },
          null,
          7,
          'q7',
        ],
      },
    },
  });
  const { job } = (await teacher.create({ overwrite: true, mode: 'AUTO' })).data;
  t.match(job, { status: 'PENDING' });
  t.equal((await teacher.create({ overwrite: true, mode: 'AUTO' })).status, 200);
  t.equal(bank.calls.length, 1, 'not for a job that is found');
  t.match(bank.calls[0], {
    path: '/v1/questions/ai-classify/context',
    headers: {
      'x-internal-service': 'ai-classifier-service',
      'x-internal-token': 'bank-token',
      'x-organization-id': 'org-9',
      'x-actor-id': 'giang',
      'x-actor-role': 'ADMIN',
    },
    body: { ...jobBody(), overwrite: true, mode: 'AUTO' },
  });
  const texts = await aiJobBatches(mongo)
    .find({ jobId: job.id }, { sort: { index: 1 } })
    .toArray();
  t.strictSame(
    texts.flatMap(({ contextText }) => JSON.parse(contextText ?? '[]')),
    jobBody().questionIds.slice(0, 6).map(bankQuestion),
  );
  await runNewestRound(mongo, job.id);
  const { items } = (await teacher.errors(job.id)).data;
  t.match(items, [{ questionId: 'q7', batchIndex: 1, code: 'AI_QUESTION_CONTEXT_FAILED', message: /question bank/ }]);
  t.match((await teacher.get(job.id)).data.job, { status: 'COMPLETED', progress: { succeeded: 6, failed: 1 } });
});

t.test('the bank may name its list `questionContext`; GET of one job returns the stored questions', async (t) => {
  const bank = await openNeighbours(t);
  const { as, url } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: undefined } });
  const teacher = as('TEACHER', 'minh');
  // As the bank returns them: extra fields are allowed, and the order is the bank's.
  const known = jobBody()
    .questionIds.slice(1)
    .map((id) => ({ ...bankQuestion(id), $ref: 'a.b' }));
  bank.answer = () => ({ body: { success: true, data: { questionContext: known.toReversed() } } });
  const created = await teacher.create();
  const { id } = created.data.job;
  t.match(created, { status: 201, data: { job: { status: 'PENDING' } } });
  const shown = async () => (await teacher.get(id)).data.job.scope.questionContext;
  t.strictSame(await shown(), known, 'in the order of the ids, also before it has run');
  const again = [await teacher.create(), await teacher.cancel(id), await teacher.retry(id)];
  await runNewestRound(mongo, id);
  t.strictSame(await shown(), known);

  const stream = await openStream(t, `${url}/v1/ai-classifier/jobs/${id}/events`, teacher.headers);
  const told = (await stream.next('snapshot')).data.job as { scope: object };
  const replied = [created, ...again].map(({ data }) => data.job);
  const listed = (await teacher.list()).data.items;
  for (const job of [...replied, ...listed, told]) t.notOk('questionContext' in job.scope, 'nowhere else');
});

t.test('a job without stored questions returns none', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const failing = await openJobDoor(t, mongo, { questionBank: { url: 'http://127.0.0.1:1', token: undefined } });
  for (const teacher of [as('TEACHER', 'tam'), failing.as('TEACHER', 'nhi')]) {
    const { id } = (await teacher.create()).data.job;
    t.equal((await teacher.get(id)).data.job.scope.questionContext, null);
  }
});

t.test('a failing bank fails the job; a retry calls the bank again', async (t) => {
  const bank = await openNeighbours(t);
  const { as, rings } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: 'bank-token' } });
  const teacher = as('TEACHER', 'hoa');
  const good = bank.answer;
  const failures: (typeof bank.answer)[] = [
    () => ({ status: 500, body: {} }),
    () => ({ status: 404, body: {} }),
    () => ({ status: 302, headers: { location: `${bank.url}/elsewhere` } }),
    () => ({ body: 'no json' }),
    () => ({ body: { data: { questions: {} } } }),
    () => ({ body: { data: { questionContext: 'q1' } } }),
    () => ({ body: { questions: [] } }),
    () => ({ body: [] }),
    () => ({ body: `{"data":{"questions":[${'"x",'.repeat(5_000_000)}"x"]}}` }),
  ];
  for (const failure of failures) {
    bank.answer = failure;
    const { status, data } = await teacher.create();
    t.equal(status, 201);
    t.match(data.job, { status: 'FAILED', result: null, error: { code: 'AI_QUESTION_CONTEXT_FAILED' } });
    t.match(data.job, { finishedAt: /./, startedAt: null });
    t.strictSame(await commandsOfJob(mongo, data.job.id), [], 'no command was stored');
  }
  t.strictSame(rings, []);
  t.notOk(
    bank.calls.some(({ path }) => path === '/elsewhere'),
    'a redirect is not followed',
  );

  const { id } = (await teacher.create()).data.job;
  bank.answer = good;
  t.match((await teacher.retry(id)).data.job, { status: 'PENDING', error: null, finishedAt: null });
  await runNewestRound(mongo, id, { QUESTION_BANK_SERVICE_URL: bank.url, INTERNAL_SERVICE_TOKEN: 'bank-token' });
  t.match((await teacher.get(id)).data.job, { status: 'COMPLETED', progress: { succeeded: 7 } });
  t.equal(bank.calls.at(-1)?.headers['x-actor-id'], 'hoa', 'in the name of the owner of the job');
});

t.test('a question that cannot be stored is treated as missing', async (t) => {
  const bank = await openNeighbours(t);
  const { as } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: undefined } });
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const long = JSON.stringify({ id: 'q2', content: 'x'.repeat(300_000) });
  bank.answer = () => ({
    body: `{"data":{"questions":[{"id":"q1","a":${deep}},${long},{"id":"q3","__proto__":{"a":1}}]}}`,
  });
  const { job } = (await as('TEACHER', 'khanh').create({ questionIds: ['q1', 'q2', 'q3'] })).data;
  const batch = await aiJobBatches(mongo).findOne({ jobId: job.id });
  t.equal(batch?.contextText, '[{"id":"q3","__proto__":{"a":1}}]');
});

t.test('a hanging bank delays a creation only up to its time limit', { timeout: 60_000 }, async (t) => {
  const bank = await openFaultReceiver(t);
  bank.behaviour = { kind: 'hang' };
  const { as } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: undefined } });
  const { data } = await as('TEACHER', 'quan').create();
  t.match(data.job, { status: 'FAILED', error: { code: 'AI_QUESTION_CONTEXT_FAILED' } });
});
