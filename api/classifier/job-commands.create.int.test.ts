import t from 'tap';
import { aiJobBatches, aiJobs } from '#infra/mongo/classifier/collections.ts';
import { commandsOfJob, runNewestRound } from '#testing/actors/classifier-scene.ts';
import { retryOn503 } from '#testing/clients/crowd.ts';
import { jobBody, openJobDoor } from '#testing/doors/job-door.ts';
import { finishedOnce, questionIds } from '#testing/stored/stored-jobs.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';

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
