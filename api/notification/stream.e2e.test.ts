import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openStream } from '#testing/clients/open-stream.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, { inside: true, doors: 2, workers: [] });
const PRODUCER = { 'x-internal-service': 'exam-service', 'x-internal-token': cluster.tokens.internal };

function actor(id: string, role = 'STUDENT') {
  return { 'x-actor-id': id, 'x-actor-role': role };
}
async function create(userId: string, title: string, door = 1): Promise<string> {
  const body = { userId, type: 'EXAM_ASSIGNED', title, content: 'Nội dung' };
  const reply = await cluster.request('POST', '/v1/notifications', { headers: PRODUCER, body, door });
  return reply.data.notification.id;
}
const streamOf = (userId: string, { door = 1, after = '' } = {}) =>
  openStream(t, `${cluster.door(door).url}/v1/notifications/stream`, {
    ...actor(userId),
    ...(after === '' ? {} : { 'last-event-id': after }),
  });

t.test('a stream sends a snapshot, then each notification and each change of the count from any door', async (t) => {
  await create('an', 'before');
  const stream = await streamOf('an');
  t.equal(stream.status, 200);
  t.match(stream.headers, {
    'content-type': /^text\/event-stream/,
    'x-accel-buffering': 'no',
    'cache-control': /no-store/,
  });
  t.match(await stream.next('snapshot'), { data: { unreadCount: 1 }, lastEventId: /./ });
  t.match(stream.text(), /^retry: 3000\n\n/);

  const here = await create('an', 'here', 1);
  t.match(await stream.next('notification'), { data: { notification: { id: here, title: 'here', isRead: false } } });
  t.match(await stream.next('counts'), { data: { unreadCount: 2 } });
  const there = await create('an', 'there', 2);
  t.match(await stream.next('notification'), { data: { notification: { id: there } } });
  t.match(await stream.next('counts'), { data: { unreadCount: 3 } });

  await cluster.request('POST', `/v1/notifications/${here}/read`, { headers: actor('an'), door: 2 });
  t.match(await stream.next('counts'), { data: { unreadCount: 2 } });
  await cluster.request('POST', '/v1/notifications/read-all', { headers: actor('an'), door: 2 });
  t.match(await stream.next('counts'), { data: { unreadCount: 0 } });
  await create('binh', "somebody else's");
  await create('an', 'last');
  t.match(await stream.next('notification'), { data: { notification: { title: 'last' } } });
  t.equal(
    stream.events.filter(({ event }) => event === 'notification').length,
    3,
    'each own notification once, none of another user',
  );
});

t.test('a reconnecting client receives once what it missed, at any door', async (t) => {
  const first = await streamOf('chi');
  await first.next('snapshot');
  const seen = await create('chi', 'seen');
  await first.next('notification');
  const { lastEventId } = await first.next('counts');
  first.close();
  const missed = [await create('chi', 'missed 1'), await create('chi', 'missed 2', 2)];
  const second = await streamOf('chi', { door: 2, after: lastEventId });
  t.match(await second.next('snapshot'), { data: { unreadCount: 3 } });
  const told = [await second.next('notification'), await second.next('notification')];
  // Each door estimates MongoDB's time, so their order is open: both were created within milliseconds.
  t.strictSame(told.map(({ data }) => (data.notification as { id: string }).id).sort(), missed.sort());
  const fresh = await create('chi', 'fresh');
  t.match(await second.next('notification'), { data: { notification: { id: fresh } } }, `${seen} is not sent again`);

  for (const after of ['no-id-of-ours', '42', 'a'.repeat(3_000)]) {
    const stream = await streamOf('chi', { after });
    t.match(await stream.next('snapshot'), { data: { unreadCount: 4 } }, 'an unknown id is a fresh start');
  }
});

t.test('a client that missed more than the limit of unread bytes receives all of it', async (t) => {
  const first = await streamOf('giang');
  const { lastEventId } = await first.next('snapshot');
  first.close();
  const notes = Array.from({ length: 60 }, (_, n) => {
    return { userId: 'giang', type: 'EXAM_ASSIGNED', title: `${n}`, content: 'ắ'.repeat(20_000) };
  });
  await cluster.request('POST', '/v1/notifications/batch', { headers: PRODUCER, body: { notifications: notes } });
  const second = await streamOf('giang', { door: 2, after: lastEventId });
  for (const { title } of notes) t.match(await second.next('notification'), { data: { notification: { title } } });
  t.not(second.ended(), true);
});

t.test('a stream requires identity, and a user holds at most five, of inbox and jobs together', async (t) => {
  const anonymous = await cluster.request('GET', '/v1/notifications/stream');
  t.match(anonymous, { status: 401, json: { code: 'UNAUTHENTICATED' } });
  const open = await Promise.all(Array.from({ length: 5 }, () => streamOf('dung')));
  t.strictSame([...new Set(open.map(({ status }) => status))], [200]);
  const refused = { status: 429, json: { code: 'RATE_LIMITED' }, headers: { 'retry-after': '15' } };
  t.match(await cluster.request('GET', '/v1/notifications/stream', { headers: actor('dung') }), refused);
  const teacher = { ...actor('dung', 'TEACHER'), 'x-organization-id': 'org-1' };
  const body = { questionIds: ['q1'], fields: ['topic'] };
  const made = await cluster.request('POST', '/v1/ai-classifier/jobs', { headers: teacher, body });
  const events = `/v1/ai-classifier/jobs/${made.data.job.id}/events`;
  t.match(await cluster.request('GET', events, { headers: teacher }), refused);
  open[0]?.close();
  await until('the stream place is free', async () => {
    const next = await openStream(t, `${cluster.door(1).url}${events}`, teacher);
    next.close();
    return next.status === 200;
  });
  await (await streamOf('em')).next('snapshot');
});

t.test('without Redis a stream sends the same changes, only later', async (t) => {
  const redis = await ownRedis();
  t.teardown(() => redis.close());
  const alone = await startCluster(t, { inside: true, doors: 2, workers: [], env: { REDIS_URL: redis.url } });
  const stream = await openStream(t, `${alone.door(1).url}/v1/notifications/stream`, actor('an'));
  await stream.next('snapshot');
  await redis.kill9();
  const body = { userId: 'an', type: 'EXAM_ASSIGNED', title: 'unheard', content: '' };
  await alone.request('POST', '/v1/notifications', { headers: PRODUCER, body, door: 2 });
  t.match(await stream.next('notification'), { data: { notification: { title: 'unheard' } } });
  t.match(await stream.next('counts'), { data: { unreadCount: 1 } });
});

t.test('a drain ends streams first and cuts no event in two', async (t) => {
  const stream = await streamOf('an', { door: 2 });
  await stream.next('snapshot');
  t.equal(await cluster.kill('web2', 'SIGTERM'), 0);
  await until('the stream has ended', () => stream.ended());
  t.match(stream.text(), /\n\n$/, 'no event was cut in two');
});

type Follow = (
  url: string,
  options: {
    headers: Record<string, string>;
    signal: AbortSignal;
    onEvent(event: string, data: Record<string, unknown>): void;
  },
) => Promise<void>;

/** Returns the client of docs/gateway/notification.md, from a file of the test. */
async function documentedClient(t: Test): Promise<Follow> {
  const page = path.resolve(import.meta.dirname, '../../docs/gateway/notification.md');
  const code = /```js\n(.*?)```/s.exec(readFileSync(page, 'utf8'))?.[1];
  if (code === undefined) throw new Error(`${page} has no js`);
  const file = path.join(t.testdir(), 'follow-inbox.mjs');
  writeFileSync(file, code);
  return (await import(file)).followInbox;
}

const STUDENT = { 'x-actor-id': 'student-7', 'x-actor-role': 'STUDENT' };

t.test('the documented stream client follows an inbox across a lost connection and ends with its signal', async (t) => {
  const followInbox = await documentedClient(t);
  const cluster = await startCluster(t, { inside: true, apart: ['web1'], doors: 2, workers: [], neighbours: false });
  const notify = (title: string) =>
    cluster.request('POST', '/v1/notifications', {
      door: 2,
      headers: { 'x-internal-service': 'exam-service', 'x-internal-token': cluster.tokens.internal },
      body: { userId: 'student-7', type: 'EXAM_ASSIGNED', title, content: '' },
    });
  const events: { event: string; data: Record<string, unknown> }[] = [];
  const ending = new AbortController();
  t.teardown(() => ending.abort());
  const stream = `${cluster.door(1).url}/v1/notifications/stream`;
  const ended = followInbox(stream, {
    headers: STUDENT,
    signal: ending.signal,
    onEvent: (event, data) => events.push({ event, data }),
  });
  const titles = () =>
    events.flatMap(({ event, data }) =>
      event === 'notification' ? [(data.notification as { title: string }).title] : [],
    );
  await until('the client is connected', () => events.some(({ event }) => event === 'snapshot'));
  await notify('live');
  await until('the notification arrives', () => titles().length === 1);

  await cluster.kill('web1');
  await notify('missed');
  await cluster.start('web1');
  await until('the missed notification arrives', () => titles().length === 2);
  t.strictSame(titles(), ['live', 'missed']);
  t.match(events.filter(({ event }) => event === 'snapshot').at(-1), { data: { unreadCount: 2 } });

  ending.abort();
  await ended;
  await t.rejects(
    followInbox(stream, {
      headers: { 'x-actor-id': 'two words' },
      signal: new AbortController().signal,
      onEvent: () => undefined,
    }),
    { message: 'the stream answered 401' },
  );
});
