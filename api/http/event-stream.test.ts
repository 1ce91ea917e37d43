import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { until } from '#testing/until.ts';
import { type EventStream, openEventStream, type StreamOptions } from './event-stream.ts';

const LARGE = { event: 'notification', data: { text: 'x'.repeat(100_000) } };

/** Connects a client that reads nothing until the test makes it read. `open` opens the stream to it. */
async function openTo(t: Test, options: Partial<StreamOptions> = {}) {
  const replied = Promise.withResolvers<ServerResponse>();
  const server = createServer((_request, response) => replied.resolve(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.pause();
  client.on('error', () => undefined);
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.teardown(() => {
    client.destroy();
    server.close();
  });
  const response = await replied.promise;
  const open = () =>
    openEventStream(response, {
      draining: new AbortController().signal,
      heartbeatMs: 60_000,
      heartbeat: () => ({ event: 'heartbeat', data: {} }),
      ...options,
    });
  return { client, response, open };
}

function readAll(client: Socket): () => number {
  let bytes = 0;
  client.on('data', (chunk) => {
    bytes += chunk.length;
  });
  client.resume();
  return () => bytes;
}

t.test('a client that leaves more unread than the limit is cut off', async (t) => {
  const { open, response } = await openTo(t);
  const stream = open();
  for (let sent = 0; sent < 200 && stream.isOpen(); sent++) stream.send(LARGE);
  t.equal(stream.isOpen(), false);
  await stream.ended;
  t.ok(response.destroyed);
});

t.test('a client that reads gets far more than the limit if the sender awaits `taken`', async (t) => {
  const { open, client } = await openTo(t);
  const stream = open();
  const bytes = readAll(client);
  for (let sent = 0; sent < 50; sent++) {
    stream.send(LARGE);
    await stream.drained();
  }
  t.ok(stream.isOpen());
  await until('all has come', () => bytes() > 50 * 100_000);
});

t.test('`taken` waits `timeoutMs` for a client that reads nothing, then cuts it off', async (t) => {
  const { open } = await openTo(t, { timeoutMs: 100 });
  const stream = open();
  await fill(stream);
  await stream.drained();
  t.equal(stream.isOpen(), false);
});

t.test('the end of a stream resolves a pending `taken`', async (t) => {
  const { open, client } = await openTo(t);
  const stream = open();
  await fill(stream);
  const waiting = stream.drained();
  client.destroy();
  await waiting;
  await stream.ended;
});

t.test('a stream to a client that left before it was opened has already ended', async (t) => {
  const { open, client, response } = await openTo(t);
  client.destroy();
  await until('the server has noticed', () => response.destroyed);
  const stream = open();
  await stream.ended;
  t.equal(stream.isOpen(), false);
});

/** Sends until the socket is full, but stays below the limit of unread bytes. */
async function fill(stream: EventStream): Promise<void> {
  const small = { event: 'notification', data: { text: 'x'.repeat(20_000) } };
  for (let full = false; !full; ) {
    stream.send(small);
    const turn = new Promise<string>((resolve) => setImmediate(resolve, 'turn'));
    full = (await Promise.race([stream.drained().then(() => 'taken'), turn.then(() => turn)])) === 'turn';
  }
}
