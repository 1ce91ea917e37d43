import t from 'tap';
import { aiJobs } from '#infra/mongo/classifier/collections.ts';
import { commandsOfJob, runNewestRound } from '#testing/actors/classifier-scene.ts';
import { retryOn503 } from '#testing/clients/crowd.ts';
import { openJobDoor } from '#testing/doors/job-door.ts';
import { finishedOnce, questionIds } from '#testing/stored/stored-jobs.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

const mongo = await openTestMongo(t);

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
