import t from 'tap';
import { runNewestRound } from '#testing/actors/classifier-scene.ts';
import { jobBody, openJobDoor } from '#testing/doors/job-door.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';

const mongo = await openTestMongo(t);

t.test('a job of another user is not found, not even by an ADMIN', async (t) => {
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

t.test('a list holds the caller’s own jobs, newest first, by status and page', async (t) => {
  const { as } = await openJobDoor(t, mongo);
  const teacher = as('TEACHER', 'lan');
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.push((await teacher.create({ filters: { n } })).data.job.id);
  await teacher.cancel(ids[1] ?? '');
  await runNewestRound(mongo, ids[2] ?? '');
  const idsOf = async (query: string) => {
    const { data } = await teacher.list(query);
    return { ...data, items: data.items.map((job: { id: string }) => ids.indexOf(job.id)) };
  };
  t.strictSame(await idsOf(''), { items: [4, 3, 2, 1, 0], total: 5, limit: 20, offset: 0 });
  t.strictSame(await idsOf('?limit=2&offset=1'), { items: [3, 2], total: 5, limit: 2, offset: 1 });
  t.strictSame(await idsOf('?status=CANCELLED'), { items: [1], total: 1, limit: 20, offset: 0 });
  const [done] = (await teacher.list('?status=COMPLETED')).data.items;
  t.strictSame(Object.keys(done.result), ['errorCount', 'usage'], 'a list leaves out the items of a result');
  t.strictSame(done.scope.questionIds, jobBody().questionIds);
  for (const query of ['?limit=0', '?limit=101', '?offset=-1', '?offset=10001', '?status=DONE', '?limit=1&limit=2']) {
    t.equal((await teacher.list(query)).status, 400, query);
  }
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
