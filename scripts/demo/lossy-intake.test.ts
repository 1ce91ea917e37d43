import t from 'tap';
import { listenLocally } from '#scripts/http/local-server.ts';
import { openLossyIntake } from './lossy-intake.ts';

/** Opens a notification service that recognises repeats; with `forgets` it treats each repeat as a new event. */
async function openService(t: { teardown(work: () => unknown): void }, { forgets = false } = {}) {
  const known = new Set<string>();
  const paths: string[] = [];
  const service = await listenLocally((request, response) => {
    paths.push(`${request.method} ${request.path}`);
    const { sourceEventId } = JSON.parse(request.text || '{}');
    const replayed = known.has(sourceEventId) && !forgets;
    known.add(sourceEventId);
    response.writeHead(replayed ? 200 : 201, {
      'content-type': 'application/json',
      'x-token': `${request.headers['x-internal-token']}`,
    });
    response.end(JSON.stringify({ success: true, data: { created: replayed ? 0 : 1, replayed } }));
  });
  const intake = await openLossyIntake(service.url);
  t.teardown(async () => {
    await intake.close();
    await service.close();
  });
  const send = async (sourceEventId: string, path = '/v1/events/notification') => {
    const headers = { 'x-internal-token': 'of the sender' };
    const reply = await fetch(`${intake.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ sourceEventId }),
    });
    await reply.text();
    return reply;
  };
  return { intake, paths, send };
}

t.test(
  'the lossy intake loses every 25th reply after the service stored the event, and counts its repeat',
  async (t) => {
    const { intake, paths, send } = await openService(t);
    const replies = [];
    for (let event = 1; event <= 50; event++) replies.push(await send(`event ${event}`));
    t.same(
      replies.flatMap(({ status }, at) => (status === 503 ? [at + 1] : [])),
      [25, 50],
    );
    t.equal(replies[0]?.headers.get('x-token'), 'of the sender', 'headers pass both ways');
    t.equal(paths.length, 50, 'the service receives every event');
    t.equal((await send('event 1')).status, 200, 'a repeat of an event whose reply arrived is not counted');
    t.same([intake.lost(), intake.recognised()], [2, 0]);
    t.equal((await send('event 25')).status, 200);
    t.equal((await send('event 25')).status, 200);
    t.same([intake.lost(), intake.recognised(), intake.doubled], [2, 1, []]);
  },
);

t.test('the lossy intake lists a repeat that the service stored as a new event', async (t) => {
  const { intake, send } = await openService(t, { forgets: true });
  for (let event = 1; event <= 25; event++) await send(`event ${event}`);
  await send('event 25');
  t.same([intake.recognised(), intake.doubled], [0, ['event 25']]);
});

t.test('the lossy intake forwards other calls and loses none of their replies', async (t) => {
  const { intake, paths, send } = await openService(t);
  for (let event = 1; event <= 30; event++) t.equal((await send(`event ${event}`, '/v1/elsewhere')).status, 201);
  t.equal(paths.at(-1), 'POST /v1/elsewhere');
  t.equal(intake.lost(), 0);
});
