import t from 'tap';
import { openStreams } from '#api/http/live-stream.ts';
import { openStreamSlots } from '#api/http/stream-slots.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { callHttp } from '#testing/clients/http-call.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { openJobDoor } from '#testing/doors/job-door.ts';
import { questionIds } from '#testing/stored/stored-jobs.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { runCommand } from '#workers/run-command.ts';

const mongo = await openTestMongo(t);
const disconnectedFeed = { notify: () => undefined, listen: () => () => undefined, isConnected: () => false };

async function work(jobId: string, publishJobChange: (id: string) => void = () => undefined): Promise<void> {
  const command = await mongo.db.collection<Command>(COMMANDS).findOne({ subject: jobId }, { sort: { _id: -1 } });
  const actor = classifierActor({
    ...testWorkerDeps(mongo, { AI_CLASSIFIER_BATCH_CONCURRENCY: '5' }),
    publishJobChange,
  });
  if (command === null) throw new Error(`job ${jobId} has no command`);
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
  await work(id, (told) => door.deps.jobChanges.notify([told]));
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
  await work(id);
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
  await work(id);
  const stream = await follow(t, door, id, 'hoa');
  const { data } = await stream.next('snapshot');
  t.equal((data.job as { result: { items: unknown[] } }).result.items.length, 2_000);
  t.strictSame((data.job as { scope: { questionIds: string[] } }).scope.questionIds, request.questionIds);
  await until('the stream ended', () => stream.ended());
  t.comment(`${stream.text().length} characters`);
});
