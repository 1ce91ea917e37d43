import t from 'tap';
import { openStreams } from '#api/http/live-stream.ts';
import { openStreamSlots } from '#api/http/stream-slots.ts';
import { commandsOfJob, runNewestRound } from '#testing/actors/classifier-scene.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { callHttp } from '#testing/clients/call.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { jobBody, openJobDoor } from '#testing/doors/job-door.ts';
import { questionIds } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { runCommand } from '#workers/run-command.ts';

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

const disconnectedFeed = { notify: () => undefined, listen: () => () => undefined, isConnected: () => false };

/** Runs the newest round of a job, as a worker that tells each change of the job. */
async function runTelling(jobId: string, publishJobChange: (id: string) => void = () => undefined): Promise<void> {
  const command = (await commandsOfJob(mongo, jobId)).at(-1);
  const actor = classifierActor({
    ...testWorkerDeps(mongo, { AI_CLASSIFIER_BATCH_CONCURRENCY: '5' }),
    publishJobChange,
  });
  if (command === undefined) throw new Error(`job ${jobId} has no command`);
  await runCommand(testKernel(mongo), actor, command);
}

type Door = Awaited<ReturnType<typeof openJobDoor>>;

function follow(test: Parameters<typeof openStream>[0], door: Door, id: string, actor: string, after?: string) {
  const { headers } = door.as('TEACHER', actor);
  const resume = after === undefined ? {} : { 'last-event-id': after };
  return openStream(test, `${door.url}/v1/ai-classifier/jobs/${id}/events`, { ...headers, ...resume });
}

t.test('a stream sends a job from its first state to its last and then ends', async (t) => {
  const door = await openJobDoor(t, mongo);
  const { id } = (await door.as('TEACHER', 'an').create({ questionIds: questionIds(30) })).data.job;
  const stream = await follow(t, door, id, 'an');
  t.equal(stream.status, 200);
  t.match(stream.headers, { 'content-type': /^text\/event-stream/, 'x-accel-buffering': 'no' });
  t.notOk('content-length' in stream.headers);
  t.match(await stream.next('snapshot'), { lastEventId: '1', data: { job: { id, status: 'PENDING', result: null } } });
  t.match(stream.text(), /^retry: 3000\n\n/);
  await runTelling(id, (told) => door.deps.jobChanges.notify([told]));
  await until('the stream ended', () => stream.ended());
  const updates = stream.events.filter(({ event }) => event === 'job.updated');
  const last = updates.at(-1);
  t.match(last, { data: { job: { status: 'COMPLETED', result: { errorCount: 0 } } } });
  const jobs = updates.map(
    ({ data }) => data.job as { status: string; revision: number; result: { items?: unknown[] } },
  );
  t.equal(jobs.at(-1)?.result.items?.length, 30, 'the last update contains all items');
  t.ok(
    jobs.slice(0, -1).every(({ result }) => result?.items === undefined),
    'earlier updates contain no items',
  );
  const revisions = jobs.map(({ revision }) => revision);
  t.strictSame(
    revisions,
    [...new Set(revisions)].sort((a, b) => a - b),
    'each newer than the one before',
  );
  t.strictSame(
    updates.map(({ lastEventId }) => Number(lastEventId)),
    revisions,
  );
});

t.test('a reconnecting client resumes where it left off and gets 204 once it knows the end', async (t) => {
  const door = await openJobDoor(t, mongo);
  const { id } = (await door.as('TEACHER', 'binh').create()).data.job;
  const unchanged = await follow(t, door, id, 'binh', '1');
  await door.as('TEACHER', 'binh').cancel(id);
  t.match(await unchanged.next('job.updated'), { lastEventId: '2', data: { job: { status: 'CANCELLED' } } });
  await until('the stream ended', () => unchanged.ended());
  t.notOk(
    unchanged.events.some(({ event }) => event === 'snapshot'),
    'a client that is up to date gets no snapshot',
  );

  const missed = await follow(t, door, id, 'binh', '1');
  t.match(await missed.next('job.updated'), { lastEventId: '2' });
  await until('the stream ended', () => missed.ended());
  const final = await follow(t, door, id, 'binh', '2');
  await until('the stream ended', () => final.ended());
  t.match([final.status, final.text()], [204, '']);
  for (const unknown of ['3', 'x', '-1', '', '99999999999999999999']) {
    const stream = await follow(t, door, id, 'binh', unknown);
    t.match(await stream.next('snapshot'), { lastEventId: '2' }, `after "${unknown}"`);
    await until('the stream ended', () => stream.ended());
    t.equal(stream.events.length, 1);
  }
});

t.test('without Redis a stream polls by itself', async (t) => {
  const door = await openJobDoor(t, mongo, { jobChanges: disconnectedFeed });
  const { id } = (await door.as('TEACHER', 'chi').create()).data.job;
  const stream = await follow(t, door, id, 'chi');
  await stream.next('snapshot');
  await runTelling(id);
  await until('the stream ended', () => stream.ended());
  t.match(stream.events.at(-1), { event: 'job.updated', data: { job: { status: 'COMPLETED' } } });
});

t.test('a change between the first two reads is not missed', async (t) => {
  const door = await openJobDoor(t, mongo);
  const teacher = door.as('TEACHER', 'dung');
  for (let round = 0; round < 10; round++) {
    const { id } = (await teacher.create({ filters: { round } })).data.job;
    const [stream] = await Promise.all([follow(t, door, id, 'dung'), teacher.cancel(id)]);
    await until('the stream ended', () => stream.ended());
    t.match(stream.events.at(-1), { data: { job: { status: 'CANCELLED' } } });
  }
});

t.test('a forbidden caller is refused before the stream begins, and open streams are limited', async (t) => {
  const slots = openStreamSlots({ perActor: 1, inAll: 10 });
  const streams = { ...openStreams(new AbortController().signal), slots };
  const door = await openJobDoor(t, mongo, { streams });
  const teacher = door.as('TEACHER', 'em');
  const { id } = (await teacher.create()).data.job;
  const events = (actor: string, role = 'TEACHER') =>
    callHttp(door.url, 'GET', `/v1/ai-classifier/jobs/${id}/events`, { headers: door.as(role, actor).headers });
  t.match(await events('other'), { status: 404, json: { code: 'JOB_NOT_FOUND' } });
  t.match(await events('boss', 'ADMIN'), { status: 404 });
  t.match(await events('em', 'STUDENT'), { status: 403 });
  const open = await follow(t, door, id, 'em');
  await open.next('snapshot');
  t.match(await events('em'), { status: 429, json: { code: 'RATE_LIMITED' } });
  open.close();
  await until('the stream place is free', async () => {
    const next = await follow(t, door, id, 'em');
    const isOpen = next.status === 200;
    next.close();
    return isOpen;
  });
});

t.test('a stream ends at its maximum age, and its client resumes it', async (t) => {
  const streams = { ...openStreams(new AbortController().signal), maxAgeMs: 100 };
  const door = await openJobDoor(t, mongo, { streams });
  const teacher = door.as('TEACHER', 'khanh');
  const { id } = (await teacher.create()).data.job;
  const first = await follow(t, door, id, 'khanh');
  const { lastEventId } = await first.next('snapshot');
  await until('the stream ended', () => first.ended());
  t.match(first.text(), /\n\n$/, 'after a whole event');
  const unchanged = await follow(t, door, id, 'khanh', lastEventId);
  await until('the resumed stream ended', () => unchanged.ended());
  t.match([unchanged.status, unchanged.events], [200, []], 'no event for a client that is up to date');
  await teacher.cancel(id);
  const last = await follow(t, door, id, 'khanh', lastEventId);
  t.match(await last.next('job.updated'), { lastEventId: '2', data: { job: { status: 'CANCELLED' } } });
});

t.test('a drain ends job streams first', async (t) => {
  const door = await openJobDoor(t, mongo);
  const { id } = (await door.as('TEACHER', 'giang').create()).data.job;
  const stream = await follow(t, door, id, 'giang');
  await stream.next('snapshot');
  door.draining.abort();
  await until('the stream ended', () => stream.ended());
  t.pass();
});

t.test('a finished job of two thousand questions is sent whole', async (t) => {
  const door = await openJobDoor(t, mongo);
  const request = { questionIds: questionIds(2_000), fields: ['topic', 'difficulty', 'cognitiveLevel', 'tags'] };
  const { id } = (await door.as('TEACHER', 'hoa').create(request)).data.job;
  await runTelling(id);
  const stream = await follow(t, door, id, 'hoa');
  const { data } = await stream.next('snapshot');
  t.equal((data.job as { result: { items: unknown[] } }).result.items.length, 2_000);
  t.strictSame((data.job as { scope: { questionIds: string[] } }).scope.questionIds, request.questionIds);
  await until('the stream ended', () => stream.ended());
  t.comment(`${stream.text().length} characters`);
});
