import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

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
