import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { JSON_TYPE, openWire, requestText } from '#testing/doors/test-door.ts';
import { openBodyReader } from './body.ts';
import { newExchange, readHead } from './exchange.ts';
import { NO_SNIFFING } from './reply.ts';

/** Reads each body that arrives at `port`, and notes how. */
async function openReader(t: Test) {
  const bodies = openBodyReader({ bodyTimeoutMs: 5_000, bodyBudgetBytes: 1 << 20, maxConnections: 16 }, () => '');
  const reads: { text: string; listeners: number }[] = [];
  const server = createServer(async (request, response) => {
    const exchange = newExchange(request, response, true);
    const reading = bodies.read(exchange, readHead(request, 'POST', '/', {}), {
      maxBytes: 1_024,
      isForm: false,
      callers: 'identified',
    });
    const read = await reading;
    // A reader that listens leaves its listeners on a request that has ended.
    reads.push({
      text: read.kind === 'read' ? read.bytes.toString() : read.kind,
      listeners: request.listenerCount('data'),
    });
    response.setHeader(...NO_SNIFFING).end('{}');
    bodies.release(exchange);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return { port: (server.address() as AddressInfo).port, reads, bodies };
}

t.test(
  'a body in the packet of its head is read without listeners, and the connection serves the next request',
  async (t) => {
    const { port, reads, bodies } = await openReader(t);
    const wire = openWire(t, port);
    for (const name of ['a', 'b', 'c']) {
      wire.write(requestText('POST', '/', [JSON_TYPE], `{"name":"${name}"}`));
      t.match(await wire.reply(), { status: 200 });
    }
    t.strictSame(
      reads,
      ['a', 'b', 'c'].map((name) => ({ text: `{"name":"${name}"}`, listeners: 0 })),
    );
    t.equal(bodies.budget('identified').used(), 0);
  },
);

t.test('pipelined bodies are read one by one', async (t) => {
  const { port, reads } = await openReader(t);
  const wire = openWire(t, port);
  const requests = ['a', 'b'].map((name) => requestText('POST', '/', [JSON_TYPE], `{"name":"${name}"}`));
  wire.write(requests.join(''));
  t.match(await wire.reply(), { status: 200 });
  t.match(await wire.reply(), { status: 200 });
  t.strictSame(
    reads.map(({ text }) => text),
    ['{"name":"a"}', '{"name":"b"}'],
  );
});

t.test('a body that arrives after its head is collected', async (t) => {
  const { port, reads } = await openReader(t);
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/', [JSON_TYPE, 'Content-Length: 12'])}{"na`);
  await new Promise((resolve) => setImmediate(resolve));
  wire.write('me":"a"}');
  t.match(await wire.reply(), { status: 200 });
  t.match(reads, [{ text: '{"name":"a"}' }]);
});
