import t, { type Test } from 'tap';
import { openReceiver } from '#scripts/http/local-server.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { gate, until } from '#testing/until.ts';
import { type Beginning, liveStream, openStreams, type Streams } from './live-stream.ts';

/** Serves one live stream that begins with `begin`. Returns its URL. */
async function served(t: Test, streams: Streams, begin: () => Promise<Beginning>): Promise<string> {
  return openReceiver(t, async (_call, response) => {
    const call = { peer: '127.0.0.1', headers: {} };
    const reply = await liveStream({
      streams,
      now: Date.now,
      holder: 'an',
      call,
      listen: () => () => undefined,
      begin,
    });
    if (isRejection(reply)) response.writeHead(429).end();
    else await reply.raw(response);
  });
}

const quiet: Beginning = {
  kind: 'follow',
  async follow(stream, wakeSignal) {
    stream.send({ event: 'snapshot', data: {}, id: 'first' });
    while (stream.isLive()) await wakeSignal.wait(60_000);
  },
};

t.test('a process allows each actor five streams of ten minutes', async (t) => {
  const { slots, maxAgeMs } = openStreams(new AbortController().signal);
  t.equal(maxAgeMs, 600_000);
  const taken = Array.from({ length: 6 }, () => slots.acquire({ actorId: 'an', networks: [] }, () => undefined));
  t.strictSame(taken.map(isRejection), [false, false, false, false, false, true]);
  t.match(taken[5], { rejected: 'RATE_LIMITED', retryAfter: 15 });
  t.notOk(
    isRejection(slots.acquire({ actorId: 'binh', networks: [] }, () => undefined)),
    'another actor has streams of its own',
  );
});

t.test('a stream that reaches its maximum age ends cleanly and releases its place', async (t) => {
  const streams = { ...openStreams(new AbortController().signal), maxAgeMs: 50 };
  const url = await served(t, streams, async () => quiet);
  for (let round = 0; round < 7; round++) {
    const stream = await openStream(t, url, {});
    t.match(await stream.next('snapshot'), { lastEventId: 'first' });
    await until('the stream ended', () => stream.ended());
    t.match(stream.text(), /\n\n$/, 'after a whole event');
  }
});

t.test('a stream at its maximum age completes the event that it has begun', async (t) => {
  const streams = { ...openStreams(new AbortController().signal), maxAgeMs: 20 };
  const grown = gate();
  const url = await served(t, streams, async () => ({
    kind: 'follow',
    async follow(stream) {
      stream.send({ event: 'notification', data: { n: 1 } });
      await until('the stream has reached its maximum age', () => !stream.isLive());
      t.equal(stream.isOpen(), true);
      await grown.opened;
      stream.send({ event: 'notification', data: { n: 2 }, id: 'both' });
    },
  }));
  const stream = await openStream(t, url, {});
  await stream.next('notification');
  grown.open();
  t.match(await stream.next('notification'), { data: { n: 2 }, lastEventId: 'both' });
  await until('the stream ended', () => stream.ended());
});

t.test('a stream that ends before its maximum age leaves no timer', async (t) => {
  const draining = new AbortController();
  const url = await served(t, openStreams(draining.signal), async () => quiet);
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const stream = await openStream(t, url, {});
  await stream.next('snapshot');
  draining.abort();
  await until('the stream ended', () => stream.ended());
  await until('the timers of the stream are gone', () => timers() <= before);
  t.pass();
});
