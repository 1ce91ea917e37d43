import t from 'tap';
import { aiJobBatches, aiJobs } from '#infra/mongo/classifier/collections.ts';
import { commandsOfJob, runNewestRound } from '#testing/actors/classifier-scene.ts';
import { retryOn503 } from '#testing/clients/call.ts';
import { jobBody, openJobDoor } from '#testing/doors/job-door.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { finishedOnce, questionIds } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

const mongo = await openTestMongo(t);

t.test('a job is created, run and returned with all its results', async (t) => {
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
  t.strictSame(rings, [(await commandsOfJob(mongo, job.id))[0]?._id], 'its worker was rung for');

  await runNewestRound(mongo, job.id);
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

t.test('an equal request finds the open job, whatever its order of parts; a finished one is replaced', async (t) => {
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
  await runNewestRound(mongo, first.id);
  const next = await teacher.create({ filters: { a: 1, b: [1, 2] } });
  t.match(next.data, { created: true });
  t.not(next.data.job.id, first.id);
});

t.test('of a hundred equal requests at once one creates the job, and all receive it', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'dung');
  const replies = await Promise.all(Array.from({ length: 100 }, () => retryOn503(() => teacher.create())));
  t.equal(replies.filter(({ status }) => status === 201).length, 1);
  t.ok(replies.every(({ status }) => status === 200 || status === 201));
  const ids = new Set(replies.map(({ data }) => data.job.id as string));
  t.equal(ids.size, 1);
  const [id = ''] = ids;
  t.equal((await commandsOfJob(mongo, id)).length, 1);
  t.equal(await aiJobs(mongo).countDocuments({ actorId: 'dung' }), 1);
  t.equal(await aiJobBatches(mongo).countDocuments({ jobId: id }), 2, 'those that lost left nothing');
});

t.test('schema and guards refuse invalid requests', async (t) => {
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
  t.strictSame(await faults({ fields: ['topic', 'màu', 'topic', '1a', '', 'a b'] }), [
    '/fields/1',
    '/fields/2',
    '/fields/3',
    '/fields/4',
    '/fields/5',
  ]);
  t.strictSame(await faults({ fields: ['x'.repeat(65), '__proto__'] }), ['/fields/0', '/fields/1']);
  t.strictSame(await faults({ fields: Array.from({ length: 21 }, (_, n) => `field${n}`) }), ['/fields']);
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

t.test('cancel accepts open jobs, retry failed or cancelled ones; a retry resets the round’s results', async (t) => {
  const { as, rings, cancelled } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'minh');
  const { id } = (await teacher.create()).data.job;
  t.match(await teacher.retry(id), { status: 409, json: { code: 'JOB_STATE_CONFLICT' } });
  t.match((await teacher.cancel(id)).data.job, { status: 'CANCELLED', revision: 2, finishedAt: /./ });
  t.match(await teacher.cancel(id), { status: 409, json: { code: 'JOB_STATE_CONFLICT' } });
  t.strictSame(cancelled, [(await commandsOfJob(mongo, id))[0]?.key], 'the calls of its round are aborted, once');
  await runNewestRound(mongo, id);
  t.match((await teacher.get(id)).data.job, { status: 'CANCELLED', revision: 2 });

  t.match((await teacher.retry(id)).data.job, { status: 'PENDING', revision: 3, finishedAt: null, result: null });
  const round2 = (await commandsOfJob(mongo, id)).at(-1);
  t.match(round2, { status: 'PENDING', attempts: 0, maxAttempts: 5, body: { round: 2 } });
  t.equal(rings.at(-1), round2?._id);
  await runNewestRound(mongo, id);
  t.match((await teacher.get(id)).data.job, { status: 'COMPLETED' });
  for (const wish of [teacher.cancel(id), teacher.retry(id)]) t.equal((await wish).status, 409);
});

t.test('a retry is refused while an equal job is open', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'nga');
  const { id } = (await teacher.create()).data.job;
  await teacher.cancel(id);
  const other = (await teacher.create()).data.job.id;
  t.match(await teacher.retry(id), { status: 409, json: { code: 'JOB_STATE_CONFLICT' } });
  t.match((await teacher.get(id)).data.job, { status: 'CANCELLED', revision: 2 });
  t.equal((await commandsOfJob(mongo, id)).length, 1, 'and no command was left behind');
  await teacher.cancel(other);
  t.equal((await teacher.retry(id)).status, 200);
});

t.test('races: one of many retries restarts the job; a retry and an equal request leave one running', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'oanh');
  const { id } = (await teacher.create()).data.job;
  await teacher.cancel(id);
  const retries = await Promise.all(Array.from({ length: 20 }, () => retryOn503(() => teacher.retry(id))));
  t.equal(retries.filter(({ status }) => status === 200).length, 1);
  t.equal(retries.filter(({ status }) => status === 409).length, 19);
  t.equal((await commandsOfJob(mongo, id)).length, 2);
  for (let round = 0; round < 8; round++) {
    for (const open of (await teacher.list('?status=PENDING')).data.items) await teacher.cancel(open.id);
    const [retried, created] = await Promise.all([
      retryOn503(() => teacher.retry(id)),
      retryOn503(() => teacher.create()),
    ]);
    t.match([retried.status, created.data.created], retried.status === 200 ? [200, false] : [409, true]);
    t.equal(await aiJobs(mongo).countDocuments({ actorId: 'oanh', open: true }), 1);
  }
});

t.test('races: a cancel and a finish never both succeed', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'phuc');
  const cancel = (id: string) => retryOn503(() => teacher.cancel(id));
  const run = (id: string) => runNewestRound(mongo, id);
  const isClaimed = async (id: string) => (await commandsOfJob(mongo, id)).some(({ fence }) => fence > 0);
  const claimed = (id: string) => until('the round is claimed', () => isClaimed(id));
  /** Orders of the two, each with the end of the job; null: either may win. */
  const orders: [
    order: string,
    both: (id: string) => Promise<Awaited<ReturnType<typeof cancel>>>,
    end: string | null,
  ][] = [
    ['cancel, then finish', async (id) => cancel(id).finally(() => run(id)), 'CANCELLED'],
    ['finish, then cancel', async (id) => run(id).then(() => cancel(id)), 'COMPLETED'],
    ['both at once', async (id) => (await Promise.all([cancel(id), run(id)]))[0], null],
    ['cancel in the round', async (id) => (await Promise.all([claimed(id).then(() => cancel(id)), run(id)]))[0], null],
  ];
  for (let round = 0; round < 3; round++) {
    for (const [order, both, end] of orders) {
      const { id } = (await teacher.create({ questionIds: questionIds(3) })).data.job;
      const cancelled = await both(id);
      const { job } = (await teacher.get(id)).data;
      t.equal(job.status, cancelled.status === 200 ? 'CANCELLED' : 'COMPLETED', order);
      if (cancelled.status === 200) t.match(job, { revision: cancelled.data.job.revision });
      else t.equal(await finishedOnce(mongo, id), 1);
      if (end === null) t.comment(`${order}: ${job.status}`);
      else t.equal(job.status, end, order);
    }
  }
});

const openJobLimits = { perActor: 3, perOrganization: 10 };
const REFUSED = { status: 429, json: { code: 'RATE_LIMITED' }, headers: { 'retry-after': '30' } };

t.test('a teacher opens at most three jobs, however many requests arrive at once at two doors', async (t) => {
  const mongo = await openTestMongo(t);
  const even = await openJobDoor(t, mongo, { openJobLimits });
  const odd = await openJobDoor(t, mongo, { openJobLimits });
  const create = (n: number, actorId = 'an') => {
    const teacher = (n % 2 === 0 ? even : odd).as('TEACHER', actorId);
    return retryOn503(() => teacher.create({ filters: { n } }));
  };
  const replies = await Promise.all(Array.from({ length: 12 }, (_, n) => create(n)));
  t.strictSame(
    replies.map(({ status }) => status).sort(),
    [201, 201, 201, ...Array.from({ length: 9 }, () => 429)],
    'three are created and none fails otherwise',
  );
  t.match(
    replies.find(({ status }) => status === 429),
    REFUSED,
  );
  t.equal(await aiJobs(mongo).countDocuments({ actorId: 'an', open: true }), 3);
  t.equal((await create(99, 'binh')).status, 201, 'another teacher is free');

  const made = replies.find(({ status }) => status === 201)?.data.job;
  const again = await even.as('TEACHER', 'an').create({ filters: made.scope.filters });
  t.match(again, { status: 200, data: { created: false, job: { id: made.id } } }, 'an equal open job is no new job');
});

t.test('the teachers of an organization open at most ten jobs together', async (t) => {
  const mongo = await openTestMongo(t);
  const { as } = await openJobDoor(t, mongo, { openJobLimits });
  const create = (n: number, organizationId = 'org-1') =>
    retryOn503(() => as('TEACHER', `teacher-${n % 6}`, organizationId).create({ filters: { n } }));
  const replies = await Promise.all(Array.from({ length: 18 }, (_, n) => create(n)));
  t.equal(replies.filter(({ status }) => status === 201).length, 10);
  t.equal(replies.filter(({ status }) => status === 429).length, 8);
  t.match(await as('TEACHER', 'fresh').create(), { ...REFUSED, json: { message: /organization has 10 open jobs/ } });
  t.equal((await as('TEACHER', 'fresh', 'org-2').create()).status, 201, 'another organization is free');
});

t.test('a job that ends frees its slots, and a retry needs them again', async (t) => {
  const mongo = await openTestMongo(t);
  const { as } = await openJobDoor(t, mongo, { openJobLimits });
  const teacher = as('TEACHER', 'chi');
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) ids.push((await teacher.create({ filters: { n } })).data.job.id);
  t.match(await teacher.create({ filters: { n: 3 } }), REFUSED);

  const [cancelled = '', second = ''] = ids;
  await teacher.cancel(cancelled);
  const next = await teacher.create({ filters: { n: 3 } });
  t.equal(next.status, 201, 'a cancelled job is not open');
  t.match(await teacher.retry(cancelled), REFUSED, 'a retried job would be the fourth');
  t.match(await teacher.retry(second), { status: 409 }, 'a conflict is told before the limit');
  t.match(await teacher.retry('unknown'), { status: 404 });
  t.match((await teacher.get(cancelled)).data.job, { status: 'CANCELLED' });

  await teacher.cancel(second);
  const retries = await Promise.all(Array.from({ length: 4 }, () => retryOn503(() => teacher.retry(cancelled))));
  t.strictSame(retries.map(({ status }) => status).sort(), [200, 409, 409, 409]);
  t.match(await teacher.retry(second), REFUSED);
});

t.test('a job beyond the limit is refused before its questions are loaded', async (t) => {
  const mongo = await openTestMongo(t);
  const bank = await openNeighbours(t);
  const open = await openJobDoor(t, mongo, { openJobLimits });
  for (let n = 0; n < 3; n++) await open.as('TEACHER', 'dung').create({ filters: { n } });
  const { as } = await openJobDoor(t, mongo, { openJobLimits, questionBank: { url: bank.url, token: undefined } });
  t.match(await as('TEACHER', 'dung').create({ filters: { n: 3 } }), REFUSED);
  t.equal(bank.calls.length, 0);
});

t.test('a lowered limit counts the jobs that were opened under the higher one', async (t) => {
  const mongo = await openTestMongo(t);
  const before = await openJobDoor(t, mongo, { openJobLimits: { perActor: 5, perOrganization: 10 } });
  for (let n = 0; n < 4; n++) await before.as('TEACHER', 'giang').create({ filters: { n } });
  const { as } = await openJobDoor(t, mongo, { openJobLimits });
  t.match(await as('TEACHER', 'giang').create({ filters: { n: 4 } }), REFUSED);
});
