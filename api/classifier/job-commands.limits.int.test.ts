import t from 'tap';
import { aiJobs } from '#infra/mongo/classifier/collections.ts';
import { retryOn503 } from '#testing/clients/crowd.ts';
import { openJobDoor } from '#testing/doors/job-door.ts';
import { openQuestionBank } from '#testing/neighbours/question-bank.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';

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
  const bank = await openQuestionBank(t);
  const open = await openJobDoor(t, mongo, { openJobLimits });
  for (let n = 0; n < 3; n++) await open.as('TEACHER', 'dung').create({ filters: { n } });
  const { as } = await openJobDoor(t, mongo, { openJobLimits, questionBank: { url: bank.url, token: undefined } });
  t.match(await as('TEACHER', 'dung').create({ filters: { n: 3 } }), REFUSED);
  t.equal(bank.requests.length, 0);
});

t.test('a lowered limit counts the jobs that were opened under the higher one', async (t) => {
  const mongo = await openTestMongo(t);
  const before = await openJobDoor(t, mongo, { openJobLimits: { perActor: 5, perOrganization: 10 } });
  for (let n = 0; n < 4; n++) await before.as('TEACHER', 'giang').create({ filters: { n } });
  const { as } = await openJobDoor(t, mongo, { openJobLimits });
  t.match(await as('TEACHER', 'giang').create({ filters: { n: 4 } }), REFUSED);
});
