import t, { type Test } from 'tap';
import type { Call } from '#api/route.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { until } from '#testing/until.ts';
import { identity } from './guards/identity.ts';
import { liveStream, openStreams } from './live-stream.ts';
import { openStreamSlots } from './stream-slots.ts';

/** Opens a door with four streams in all, behind a trusted proxy. Returns a function that opens a stream of an actor. */
async function openStreamDoor(t: Test) {
  const trustedProxies = ['127.0.0.1'];
  const streams = {
    ...openStreams(new AbortController().signal, undefined, trustedProxies),
    slots: openStreamSlots({ perActor: 5, inAll: 4 }),
  };
  const route = echoRoute({
    method: 'GET',
    path: '/v1/stream',
    guards: [identity()],
    handle: (call: Call) =>
      liveStream({
        streams,
        now: Date.now,
        holder: call.identity.actor?.id ?? '',
        call,
        listen: () => () => undefined,
        begin: async () => ({
          kind: 'follow',
          async follow(stream, wakeSignal) {
            stream.send({ event: 'snapshot', data: {}, id: 'first' });
            while (stream.isLive()) await wakeSignal.wait(60_000);
          },
        }),
      }),
  });
  const { port } = await openTestDoor(t, { routes: [route], trustedProxies });
  return (actorId: string, address: string) =>
    openStream(t, `http://127.0.0.1:${port}/v1/stream`, {
      'x-user-id': actorId,
      'x-user-role': 'STUDENT',
      'x-forwarded-for': address,
    });
}

t.test('a stream that makes room for one from elsewhere ends after a whole event', async (t) => {
  const follow = await openStreamDoor(t);
  const crowd = [];
  for (let n = 1; n <= 4; n += 1) {
    const stream = await follow(`stranger-${n}`, `2001:db8:a:${n}::1`);
    await stream.next('snapshot');
    crowd.push(stream);
  }
  const newcomer = await follow('student-1', '198.51.100.7');
  await newcomer.next('snapshot');
  const [oldest, ...others] = crowd;
  await until('the oldest stream of the fullest network ended', () => oldest?.ended() === true);
  t.match(oldest?.text(), /\n\n$/, 'after a whole event');
  t.strictSame(
    others.map((stream) => stream.ended()),
    [false, false, false],
  );
  t.equal(
    (await follow('stranger-5', '2001:db8:a:5::1')).status,
    503,
    'the fullest network takes no place from others',
  );
  t.equal(newcomer.ended(), false);
});
