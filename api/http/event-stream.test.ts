import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { until } from '#testing/until.ts';
import { type EventStream, openEventStream, type StreamOptions } from './event-stream.ts';

const LARGE = { event: 'notification', data: { text: 'x'.repeat(100_000) } };

/** A stream to a client that reads nothing until told to. */
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

t.test('who leaves more unread than the bound is cut off', async (t) => {
  const { open, response } = await openTo(t);
  const stream = open();
  for (let sent = 0; sent < 200 && stream.isOpen(); sent++) stream.send(LARGE);
  t.equal(stream.isOpen(), false);
  await stream.ended;
  t.ok(response.destroyed);
});

t.test('who reads gets far more than the bound, where the sender waits for it', async (t) => {
  const { open, client } = await openTo(t);
  const stream = open();
  const bytes = readAll(client);
  for (let sent = 0; sent < 50; sent++) {
    stream.send(LARGE);
    await stream.taken();
  }
  t.ok(stream.isOpen());
  await until('all has come', () => bytes() > 50 * 100_000);
});

t.test('who takes nothing is waited for only so long', async (t) => {
  const { open } = await openTo(t, { patienceMs: 100 });
  const stream = open();
  await fill(stream);
  await stream.taken();
  t.equal(stream.isOpen(), false);
});

t.test('the end of a stream ends the wait for its reader', async (t) => {
  const { open, client } = await openTo(t);
  const stream = open();
  await fill(stream);
  const waiting = stream.taken();
  client.destroy();
  await waiting;
  await stream.ended;
});

t.test('a client that left before its stream was opened leaves nothing behind', async (t) => {
  const { open, client, response } = await openTo(t);
  client.destroy();
  await until('the server has noticed', () => response.destroyed);
  const stream = open();
  await stream.ended;
  t.equal(stream.isOpen(), false);
});

/** Sends until the client's side is full, and the bound is not passed. */
async function fill(stream: EventStream): Promise<void> {
  const small = { event: 'notification', data: { text: 'x'.repeat(20_000) } };
  for (let full = false; !full; ) {
    stream.send(small);
    const turn = new Promise<string>((resolve) => setImmediate(resolve, 'turn'));
    full = (await Promise.race([stream.taken().then(() => 'taken'), turn.then(() => turn)])) === 'turn';
  }
}
