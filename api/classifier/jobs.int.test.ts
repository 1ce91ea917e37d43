import t from 'tap';
import { aiJobBatches, aiJobs } from '../../shared/infra/mongo/classifier/collections.ts';
import { COMMANDS } from '../../shared/infra/mongo/mailbox/mailbox.ts';
import type { Command } from '../../shared/kernel/command.ts';
import { openFaultReceiver } from '../../shared/testing/fault-receiver.ts';
import { jobBody, openJobDoor } from '../../shared/testing/job-door.ts';
import { openTestMongo } from '../../shared/testing/open-test-mongo.ts';
import { bankQuestion, openQuestionBank } from '../../shared/testing/question-bank.ts';
import { finishedOnce, questionIds } from '../../shared/testing/stored-jobs.ts';
import { testKernel, testWorkerDeps } from '../../shared/testing/test-kernel.ts';
import { classifierActor } from '../../workers/classifier/actor.ts';
import { runCommand } from '../../workers/run-command.ts';

const mongo = await openTestMongo(t);
const commands = () => mongo.db.collection<Command>(COMMANDS);
const commandsOf = (subject: string) =>
  commands()
    .find({ subject }, { sort: { _id: 1 } })
    .toArray();

async function work(jobId: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const command = (await commandsOf(jobId)).at(-1);
  if (command === undefined) throw new Error(`job ${jobId} has no command`);
  await runCommand(testKernel(mongo), classifierActor(testWorkerDeps(mongo, env)), 'classifier', command._id);
}

t.test('a job is made, run, and told with all that it brought', async (t) => {
  const { as, rings } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'an');
  const made = await teacher.create({ mode: 'AUTO', threshold: 0, filters: { 'a.b': '$c', deep: { n: 1 } } });
  t.equal(made.status, 201);
  const { job } = made.data;
  t.match(made.data, {
    created: true,
    job: {
      status: 'PENDING',
      result: null,
      error: null,
      revision: 1,
      startedAt: null,
      finishedAt: null,
      scope: {
        actorId: 'an',
        actorRole: 'TEACHER',
        organizationId: 'org-1',
        filters: { 'a.b': '$c', deep: { n: 1 } },
        ...jobBody(),
        mode: 'AUTO',
        overwrite: false,
        threshold: 0,
      },
      progress: { total: 7, processed: 0, succeeded: 0, failed: 0, batchesTotal: 2, batchesDone: 0, percent: 0 },
    },
  });
  t.strictSame(rings, [(await commandsOf(job.id))[0]?._id], 'its worker was rung for');

  await work(job.id);
  const { data } = await teacher.get(job.id);
  t.match(data.job, {
    status: 'COMPLETED',
    progress: { processed: 7, percent: 100, batchesDone: 2 },
    error: null,
    result: { errorCount: 0, usage: { inputTokens: Number, outputTokens: Number } },
  });
  t.strictSame(
    data.job.result.items.map((item: { questionId: string }) => item.questionId),
    jobBody().questionIds,
  );
  t.ok(data.job.result.items.every((item: { accepted: boolean }) => item.accepted));
  t.match((await teacher.errors(job.id)).data, { items: [], total: 0, limit: 20, offset: 0 });
  t.equal(await finishedOnce(mongo, job.id), 1);
});

t.test('an equal wish finds the open job, whatever the order of its parts; a finished one is made anew', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'binh');
  const first = (await teacher.create({ filters: { a: 1, b: [1, 2] }, threshold: 0.7, mode: 'SUGGEST' })).data.job;
  const same = { questionIds: jobBody().questionIds.toReversed(), fields: ['difficulty', 'topic'] };
  const again = await teacher.create({ ...same, filters: { b: [1, 2], a: 1 }, overwrite: false });
  t.equal(again.status, 200);
  t.match(again.data, { created: false, job: { id: first.id } });
  const others = [
    await as('TEACHER', 'chi').create({ filters: { a: 1, b: [1, 2] } }),
    await as('TEACHER', 'binh', 'org-2').create({ filters: { a: 1, b: [1, 2] } }),
    await teacher.create({ filters: { a: 1, b: [2, 1] } }),
    await teacher.create({ filters: { a: 1, b: [1, 2] }, overwrite: true }),
  ];
  t.strictSame(
    others.map(({ status }) => status),
    [201, 201, 201, 201],
  );
  await work(first.id);
  const next = await teacher.create({ filters: { a: 1, b: [1, 2] } });
  t.match(next.data, { created: true });
  t.not(next.data.job.id, first.id);
});

t.test('of a hundred equal wishes at once one makes the job, and all get it', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'dung');
  const replies = await Promise.all(Array.from({ length: 100 }, () => teacher.create()));
  t.equal(replies.filter(({ status }) => status === 201).length, 1);
  t.ok(replies.every(({ status }) => status === 200 || status === 201));
  const ids = new Set(replies.map(({ data }) => data.job.id as string));
  t.equal(ids.size, 1);
  const [id = ''] = ids;
  t.equal((await commandsOf(id)).length, 1);
  t.equal(await aiJobs(mongo).countDocuments({ actorId: 'dung' }), 1);
  t.equal(await aiJobBatches(mongo).countDocuments({ jobId: id }), 2, 'those that lost left nothing');
});

t.test('what the schema and the guards refuse', async (t) => {
  const { as, url } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER');
  const faults = async (change: Record<string, unknown>) => {
    const { status, json } = await teacher.create(change);
    t.equal(status, 400, JSON.stringify(change).slice(0, 80));
    return json.details.map(({ path }: { path: string }) => path).sort();
  };
  t.strictSame(await faults({ questionIds: [] }), ['/questionIds']);
  t.strictSame(await faults({ questionIds: questionIds(2_001) }), ['/questionIds']);
  t.strictSame(await faults({ questionIds: ['a', 'b', 'a'] }), ['/questionIds/2']);
  t.strictSame(await faults({ fields: ['topic', 'colour', 'topic'] }), ['/fields/1', '/fields/2']);
  t.strictSame(await faults({ threshold: 1.01, mode: 'auto', overwrite: 'yes', filters: [], model: 'x' }), [
    '/filters',
    '/mode',
    '/model',
    '/overwrite',
    '/threshold',
  ]);
  t.equal((await as('STUDENT').create()).status, 403);
  t.equal((await as('PARENT').list()).status, 403);
  t.equal((await as('TEACHER').summary()).status, 403);
  const { 'x-organization-id': _, ...unscoped } = teacher.headers;
  const reply = await fetch(`${url}/v1/ai-classifier/jobs`, { headers: unscoped });
  t.equal(reply.status, 401);
  const odd = await fetch(`${url}/v1/ai-classifier/jobs`, { headers: { ...unscoped, 'x-organization-id': 'a b' } });
  t.match([odd.status, await odd.json()], [401, { code: 'UNAUTHENTICATED' }]);
});

t.test('somebody else’s job is not there, for an ADMIN neither', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const { id } = (await as('TEACHER', 'em').create()).data.job;
  const strangers = [as('ADMIN', 'boss'), as('TEACHER', 'em', 'org-2'), as('TEACHER', 'other')];
  for (const stranger of strangers) {
    for (const reply of [stranger.get(id), stranger.errors(id), stranger.cancel(id), stranger.retry(id)]) {
      t.match(await reply, { status: 404, json: { code: 'JOB_NOT_FOUND' } });
    }
    t.notOk((await stranger.list()).data.items.some((job: { id: string }) => job.id === id));
  }
  t.match((await as('TEACHER', 'em').get(id)).data.job, { status: 'PENDING', revision: 1 });
  t.equal((await as('TEACHER', 'em').get('nothing')).status, 404);
});

t.test('the question bank is asked once, in the caller’s name, and what it says goes into the job', async (t) => {
  const bank = await openQuestionBank(t);
  const neighbour = { url: bank.url, token: 'bank-token' };
  const { as } = await openJobDoor(t, mongo, { questionBank: neighbour });
  const teacher = as('ADMIN', 'giang', 'org-9');
  bank.answer = ({ body }) => ({
    body: {
      success: true,
      data: {
        questions: [
          ...body.questionIds.slice(0, 6).map(bankQuestion),
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
  t.equal(bank.requests.length, 1, 'not for a job that is found');
  t.match(bank.requests[0], {
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
  await work(job.id);
  const { items } = (await teacher.errors(job.id)).data;
  t.match(items, [{ questionId: 'q7', batchIndex: 1, code: 'AI_QUESTION_CONTEXT_FAILED', message: /question bank/ }]);
  t.match((await teacher.get(job.id)).data.job, { status: 'COMPLETED', progress: { succeeded: 6, failed: 1 } });
});

t.test('a bank that fails fails the job; a retry asks it again', async (t) => {
  const bank = await openQuestionBank(t);
  const { as, rings } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: 'bank-token' } });
  const teacher = as('TEACHER', 'hoa');
  const good = bank.answer;
  const failures: (typeof bank.answer)[] = [
    () => ({ status: 500, body: {} }),
    () => ({ status: 404, body: {} }),
    () => ({ status: 302, headers: { location: `${bank.url}/elsewhere` } }),
    () => ({ body: 'no json' }),
    () => ({ body: { data: { questions: {} } } }),
    () => ({ body: [] }),
    () => ({ body: `{"data":{"questions":[${'"x",'.repeat(5_000_000)}"x"]}}` }),
  ];
  for (const failure of failures) {
    bank.answer = failure;
    const { status, data } = await teacher.create();
    t.equal(status, 201);
    t.match(data.job, { status: 'FAILED', result: null, error: { code: 'AI_QUESTION_CONTEXT_FAILED' } });
    t.match(data.job, { finishedAt: /./, startedAt: null });
    t.strictSame(await commandsOf(data.job.id), [], 'nobody runs it');
  }
  t.strictSame(rings, []);
  t.notOk(
    bank.requests.some(({ path }) => path === '/elsewhere'),
    'a redirect is not followed',
  );

  const { id } = (await teacher.create()).data.job;
  bank.answer = good;
  t.match((await teacher.retry(id)).data.job, { status: 'PENDING', error: null, finishedAt: null });
  await work(id, { QUESTION_BANK_SERVICE_URL: bank.url, INTERNAL_SERVICE_TOKEN: 'bank-token' });
  t.match((await teacher.get(id)).data.job, { status: 'COMPLETED', progress: { succeeded: 7 } });
  t.equal(bank.requests.at(-1)?.headers['x-actor-id'], 'hoa', 'in the name of whoever made the job');
});

t.test('a question that cannot be stored counts as left out', async (t) => {
  const bank = await openQuestionBank(t);
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

t.test('lists: the caller’s own, newest first, by status, a page at a time', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'lan');
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.push((await teacher.create({ filters: { n } })).data.job.id);
  await teacher.cancel(ids[1] ?? '');
  await work(ids[2] ?? '');
  const idsOf = async (query: string) => {
    const { data } = await teacher.list(query);
    return { ...data, items: data.items.map((job: { id: string }) => ids.indexOf(job.id)) };
  };
  t.strictSame(await idsOf(''), { items: [4, 3, 2, 1, 0], total: 5, limit: 20, offset: 0 });
  t.strictSame(await idsOf('?limit=2&offset=1'), { items: [3, 2], total: 5, limit: 2, offset: 1 });
  t.strictSame(await idsOf('?status=CANCELLED'), { items: [1], total: 1, limit: 20, offset: 0 });
  const [done] = (await teacher.list('?status=COMPLETED')).data.items;
  t.strictSame(Object.keys(done.result), ['errorCount', 'usage'], 'without what it brought');
  t.strictSame(done.scope.questionIds, jobBody().questionIds);
  for (const query of ['?limit=0', '?limit=101', '?offset=-1', '?offset=10001', '?status=DONE', '?limit=1&limit=2']) {
    t.equal((await teacher.list(query)).status, 400, query);
  }
});

t.test('cancel and retry each fit two states, and reset what they must', async (t) => {
  const { as, rings } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'minh');
  const { id } = (await teacher.create()).data.job;
  t.match(await teacher.retry(id), { status: 409, json: { code: 'JOB_STATE_CONFLICT' } });
  t.match((await teacher.cancel(id)).data.job, { status: 'CANCELLED', revision: 2, finishedAt: /./ });
  t.match(await teacher.cancel(id), { status: 409, json: { code: 'JOB_STATE_CONFLICT' } });
  await work(id);
  t.match((await teacher.get(id)).data.job, { status: 'CANCELLED', revision: 2 });

  t.match((await teacher.retry(id)).data.job, { status: 'PENDING', revision: 3, finishedAt: null, result: null });
  const round2 = (await commandsOf(id)).at(-1);
  t.match(round2, { status: 'PENDING', attempts: 0, maxAttempts: 5, body: { round: 2 } });
  t.equal(rings.at(-1), round2?._id);
  await work(id);
  t.match((await teacher.get(id)).data.job, { status: 'COMPLETED' });
  for (const wish of [teacher.cancel(id), teacher.retry(id)]) t.equal((await wish).status, 409);
});

t.test('a retry beside an equal open job is refused', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'nga');
  const { id } = (await teacher.create()).data.job;
  await teacher.cancel(id);
  const other = (await teacher.create()).data.job.id;
  t.match(await teacher.retry(id), { status: 409, json: { code: 'JOB_STATE_CONFLICT' } });
  t.match((await teacher.get(id)).data.job, { status: 'CANCELLED', revision: 2 });
  t.equal((await commandsOf(id)).length, 1, 'and no command was left behind');
  await teacher.cancel(other);
  t.equal((await teacher.retry(id)).status, 200);
});

t.test('races: of many retries one starts the job over; of retry and equal wish one makes it run', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'oanh');
  const { id } = (await teacher.create()).data.job;
  await teacher.cancel(id);
  const retries = await Promise.all(Array.from({ length: 20 }, () => teacher.retry(id)));
  t.equal(retries.filter(({ status }) => status === 200).length, 1);
  t.equal(retries.filter(({ status }) => status === 409).length, 19);
  t.equal((await commandsOf(id)).length, 2);
  for (let round = 0; round < 8; round++) {
    for (const open of (await teacher.list('?status=PENDING')).data.items) await teacher.cancel(open.id);
    const [retried, created] = await Promise.all([teacher.retry(id), teacher.create()]);
    t.match([retried.status, created.data.created], retried.status === 200 ? [200, false] : [409, true]);
    t.equal(await aiJobs(mongo).countDocuments({ actorId: 'oanh', open: true }), 1);
  }
});

t.test('races: a cancel and a finish never both win', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'phuc');
  const seen = new Set<string>();
  for (let round = 0; round < 12; round++) {
    const { id } = (await teacher.create({ questionIds: questionIds(3) })).data.job;
    const [cancelled] = await Promise.all([
      new Promise((resolve) => setTimeout(resolve, round)).then(() => teacher.cancel(id)),
      work(id),
    ]);
    const { job } = (await teacher.get(id)).data;
    t.equal(job.status, cancelled.status === 200 ? 'CANCELLED' : 'COMPLETED');
    if (cancelled.status === 200) t.match(job, { revision: cancelled.data.job.revision });
    else t.equal(await finishedOnce(mongo, id), 1);
    seen.add(job.status);
  }
  t.comment(`ended as ${[...seen]}`);
});

t.test('a bank that hangs holds a creation up for its bound and no longer', { timeout: 60_000 }, async (t) => {
  const bank = await openFaultReceiver(t);
  bank.behaviour = { kind: 'hang' };
  const { as } = await openJobDoor(t, mongo, { questionBank: { url: bank.url, token: undefined } });
  const { data } = await as('TEACHER', 'quan').create();
  t.match(data.job, { status: 'FAILED', error: { code: 'AI_QUESTION_CONTEXT_FAILED' } });
});

t.test('the queue summary counts the jobs of every organization', async (t) => {
  const own = await openTestMongo(t);
  const { as } = await openJobDoor(t, own);
  const failing = await openJobDoor(t, own, { questionBank: { url: 'http://127.0.0.1:1', token: undefined } });
  for (let n = 0; n < 3; n++) await as('TEACHER', `t-${n}`, `org-${n}`).create();
  const { id } = (await as('TEACHER', 't-0', 'org-0').create({ filters: { n: 1 } })).data.job;
  await as('TEACHER', 't-0', 'org-0').cancel(id);
  const failed: string[] = [];
  for (let n = 0; n < 3; n++) failed.push((await failing.as('TEACHER').create({ filters: { n } })).data.job.id);
  const admin = as('ADMIN', 'boss', 'org-x');
  const { data } = await admin.summary('?recentFailuresLimit=2');
  t.match(data, {
    sourceService: 'ai-classifier-service',
    depth: { pending: 3, running: 0 },
    counts: { PENDING: 3, RUNNING: 0, COMPLETED: 0, FAILED: 3, CANCELLED: 1 },
    commands: { retry: '/v1/ai-classifier/jobs/{id}/retry', cancel: '/v1/ai-classifier/jobs/{id}/cancel' },
  });
  t.strictSame(
    data.sample.map((job: { organizationId: string }) => job.organizationId),
    ['org-0', 'org-1', 'org-2'],
  );
  t.strictSame(
    data.recentFailures.map((job: { id: string }) => job.id),
    failed.slice(1).toReversed(),
  );
  t.equal((await admin.summary()).data.recentFailures.length, 3);
  for (const limit of ['0', '51', 'x']) t.equal((await admin.summary(`?recentFailuresLimit=${limit}`)).status, 400);
});
