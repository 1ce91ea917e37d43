import t from 'tap';
import type { InboxEvent } from '../../clients/typescript/src/index.ts';
import { failure, hangUp, openScript, stream } from './scripted-server.ts';

const STUDENT = { id: 'student-1', role: 'STUDENT' } as const;
const TEACHER = { id: 'teacher-1', role: 'TEACHER', organizationId: 'org-1' } as const;

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function message(event: string, data: unknown, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

t.test('an inbox resumes after its last id, and waits as long as the server requires', async (t) => {
  const { client, calls, pauses } = await openScript(t, [
    stream('retry: 5000\n\n', message('snapshot', { unreadCount: 1 }, 'first'), message('heartbeat', { at: 'now' })),
    failure(429, 'RATE_LIMITED', { 'retry-after': '90' }),
    hangUp,
    stream(message('snapshot', { unreadCount: 2 }, 'second'), 'event: counts\ndata: {"unread'),
    stream(message('notification', { notification: { id: 'n-1' } }, 'third')),
  ]);
  const events: InboxEvent[] = [];
  let resumptions = 0;
  const beforeResume = () => {
    resumptions += 1;
  };
  for await (const event of client.streams.inbox({ as: STUDENT, lastEventId: 'kept', beforeResume })) {
    events.push(event);
    if (event.event === 'notification') break;
  }
  t.strictSame(events, [
    { event: 'snapshot', data: { unreadCount: 1 }, id: 'first' },
    { event: 'heartbeat', data: { at: 'now' } },
    { event: 'snapshot', data: { unreadCount: 2 }, id: 'second' },
    { event: 'notification', data: { notification: { id: 'n-1' } }, id: 'third' },
  ]);
  t.strictSame(
    calls.map(({ headers }) => headers['last-event-id']),
    ['kept', 'first', 'first', 'first', 'second'],
  );
  t.match(calls[0]?.headers, { accept: 'text/event-stream', 'x-actor-id': 'student-1', 'x-gateway-token': /./ });
  t.equal(resumptions, 4);
  const [afterEnd = 0, afterRefusal = 0, afterLoss = 0] = pauses;
  t.ok(afterEnd >= 4_000 && afterEnd <= 6_000, `${afterEnd} ms after the end, by the retry of the stream`);
  t.ok(afterRefusal >= 90_000, `${afterRefusal} ms after the 429`);
  t.ok(afterLoss >= 5_000, `${afterLoss} ms after a lost connection`);
});

t.test('a job ends with its last event, and with a 204', async (t) => {
  const job = (status: string) => ({ job: { id: 'job-1', status } });
  const { client, calls } = await openScript(t, [
    stream(message('snapshot', job('RUNNING'), '1')),
    stream(message('job.updated', job('COMPLETED'), '2')),
    { status: 204, body: '' },
  ]);
  const follow = async (lastEventId?: string) => {
    const seen: string[] = [];
    const resume = lastEventId === undefined ? {} : { lastEventId };
    for await (const { event } of client.streams.job({ jobId: 'job-1', as: TEACHER, ...resume })) seen.push(event);
    return seen;
  };
  t.strictSame(await follow(), ['snapshot', 'job.updated']);
  t.strictSame(await follow('2'), []);
  t.strictSame(
    calls.map(({ path, headers }) => `${path} ${headers['last-event-id']}`),
    ['undefined', '1', '2'].map((id) => `/v1/ai-classifier/jobs/job-1/events ${id}`),
  );
});

t.test('a final refusal, a first connection that always fails, and an ended session end a stream', async (t) => {
  const { client } = await openScript(t, [
    failure(403, 'FORBIDDEN'),
    hangUp,
    hangUp,
    hangUp,
    hangUp,
    stream(message('snapshot', { unreadCount: 0 }, 'first')),
  ]);
  const first = (options = {}) => collect(client.streams.inbox({ as: STUDENT, ...options }));
  await t.rejects(first(), { code: 'FORBIDDEN', operation: 'streamInbox', requestId: 'request-1' });
  await t.rejects(first(), { code: 'NO_REPLY' });
  const ended = new Error('the session has ended');
  const beforeResume = () => {
    throw ended;
  };
  await t.rejects(first({ beforeResume }), ended);
});

t.test('a silent connection is replaced, and a signal ends the iteration', async (t) => {
  const { client, calls } = await openScript(t, [
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(message('snapshot', { unreadCount: 0 }, 'first'));
    },
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(message('counts', { unreadCount: 1 }));
    },
  ]);
  const leaving = new AbortController();
  const seen: string[] = [];
  for await (const { event } of client.streams.inbox({ as: STUDENT, silenceMs: 20, signal: leaving.signal })) {
    seen.push(event);
    if (event === 'counts') leaving.abort();
  }
  t.strictSame(seen, ['snapshot', 'counts']);
  t.equal(calls[1]?.headers['last-event-id'], 'first');
  t.strictSame(await collect(client.streams.inbox({ as: STUDENT, signal: AbortSignal.abort() })), []);
});
