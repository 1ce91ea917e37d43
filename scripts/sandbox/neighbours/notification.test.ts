import t, { type Test } from 'tap';
import { answerJson, listenLocally } from '#scripts/http/local-server.ts';
import type { Failure } from './failure.ts';
import { openStandIns } from './open-stand-ins.ts';

const LOSES: Failure = { lose: true, answer: 503, retryAfter: 1, every: 25 };

/** Opens a notification service that recognises repeats, behind the stand-in; with `forgets` it treats each repeat as a new event. */
async function openService(t: Test, { forgets = false } = {}) {
  const known = new Set<string>();
  const paths: string[] = [];
  const service = await listenLocally((request, response) => {
    paths.push(`${request.method} ${request.path}`);
    const { sourceEventId } = request.json() as { sourceEventId: string };
    const replayed = known.has(sourceEventId) && !forgets;
    known.add(sourceEventId);
    const headers = { 'x-token': `${request.headers['x-internal-token']}` };
    const body = { success: true, data: { created: replayed ? 0 : 1, replayed } };
    answerJson(response, { status: replayed ? 200 : 201, headers, body });
  });
  const standIns = await openStandIns({ env: { INTERNAL_SERVICE_TOKEN: 'of the sender' } });
  standIns.notification.forwardTo(service.url);
  standIns.fail('notification', LOSES);
  t.teardown(async () => {
    await standIns.close();
    await service.close().catch(() => undefined);
  });
  const send = async (sourceEventId: string) => {
    const about = { preferenceType: 'T', entity: 'E', entityId: 'e' };
    const reply = await fetch(`${standIns.urlOf('notification')}/v1/events/notification`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-internal-service': 'attempt-service',
        'x-internal-token': 'of the sender',
      },
      body: JSON.stringify({
        sourceService: 'attempt-service',
        sourceEventId,
        type: 'T',
        ...about,
        targetUserIds: ['a'],
        notifications: [{ userId: 'a', type: 'T', title: 't', content: 'c', ...about }],
        payload: {},
      }),
    });
    await reply.text();
    return reply;
  };
  return { losses: standIns.notification.losses, service, paths, send };
}

t.test('replies that the stand-in loses reach the service, and their repeats are counted', async (t) => {
  const { losses, paths, send } = await openService(t);
  const replies = [];
  for (let event = 1; event <= 50; event++) replies.push(await send(`event ${event}`));
  t.same(
    replies.flatMap(({ status }, at) => (status === 503 ? [at + 1] : [])),
    [25, 50],
  );
  t.equal(replies[0]?.headers.get('x-token'), 'of the sender', 'headers pass both ways');
  t.equal(paths.length, 50, 'the service receives every event');
  t.equal((await send('event 1')).status, 200, 'a repeat of an event whose reply arrived is not counted');
  t.same([losses.lost(), losses.recognised()], [2, 0]);
  t.equal((await send('event 25')).status, 200);
  t.equal((await send('event 25')).status, 200);
  t.same([losses.lost(), losses.recognised(), losses.doubled], [2, 1, []]);
});

t.test('the stand-in lists a repeat that the service stored as a new event', async (t) => {
  const { losses, send } = await openService(t, { forgets: true });
  for (let event = 1; event <= 25; event++) await send(`event ${event}`);
  await send('event 25');
  t.same([losses.recognised(), losses.doubled], [0, ['event 25']]);
});

t.test('the stand-in answers 503 while the service behind it is gone, and counts no lost reply', async (t) => {
  const { losses, service, send } = await openService(t);
  await service.close();
  for (let event = 1; event <= 25; event++) t.equal((await send(`event ${event}`)).status, 503);
  t.equal(losses.lost(), 0);
});
