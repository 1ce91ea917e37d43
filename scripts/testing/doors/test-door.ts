import { connect } from 'node:net';
import type { Test } from 'tap';
import type { Call, Route } from '#api/route.ts';
import { openServer, type ServerDeps, type ServerLimits } from '#api/server.ts';
import { openLog } from '#infra/log/log.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import { loadSchemas } from '#infra/schema/validator.ts';

export interface TestDoorOptions
  extends Partial<
    Pick<ServerDeps, 'routes' | 'isOutage' | 'isProven' | 'wrongTokens' | 'loopbackOnly' | 'trustedProxies'>
  > {
  limits?: Partial<ServerLimits>;
  /** `product` checks queries and bodies by the schemas of the product; default: those of `echoRoute`. */
  schemas?: 'product';
  /** Default: a log of its own, which `lines` returns. */
  logs?: ReturnType<typeof openLog>;
  draining?: AbortController;
}

export type TestDoor = Awaited<ReturnType<typeof openTestDoor>>;
type Teardown = Pick<Test, 'teardown' | 'testdir'>;

/** Opens a front door with the test's routes on a free loopback port. */
export async function openTestDoor(t: Teardown, options: TestDoorOptions = {}) {
  const text: string[] = [];
  const ownLogs = () => openLog({ level: 'debug', name: 'test', destination: { write: (line) => text.push(line) } });
  const { schemas, limits, logs: { log, access } = ownLogs(), draining = new AbortController(), ...rest } = options;
  const observed: { method: string; route: string; status: number }[] = [];
  /** Reasons why connections were closed without a reply. */
  const dropped: string[] = [];
  const door = openServer({
    routes: [echoRoute()],
    schemas:
      schemas === 'product'
        ? loadSchemas()
        : loadSchemas(t.testdir({ test: { 'body.json': BODY, 'query.json': QUERY } })),
    log,
    access,
    actorHash: (id) => openKeyedHash('x')('actor', id),
    draining: draining.signal,
    observe: (method, route, status) => observed.push({ method, route, status }),
    isOutage: () => false,
    loopbackOnly: false,
    trustedProxies: [],
    dropped: (reason) => dropped.push(reason),
    limits: {
      headTimeoutMs: 10_000,
      bodyTimeoutMs: 20_000,
      bodyBudgetBytes: 1 << 20,
      maxConnections: 1_024,
      anonymous: { requests: 8_192, bodyBytes: 1 << 24 },
      ...limits,
    },
    ...rest,
  });
  const port = await door.listen(0, '127.0.0.1');
  t.teardown(() => door.close(0));
  /** Returns the lines of the log, parsed; request lines have `msg: 'request'`. */
  const lines = (): Record<string, unknown>[] => text.map((line) => JSON.parse(line));
  return { door, port, draining, observed, dropped, lines };
}

/** Returns the route `POST /v1/echo/:id`, which has a schema and answers with the request. */
export function echoRoute(change: Partial<Route> = {}): Route {
  return {
    method: 'POST',
    path: '/v1/echo/:id',
    operation: 'echo',
    summary: '',
    guards: [],
    body: { schema: 'test/body', maxBytes: 1_024 },
    query: 'test/query',
    replies: [],
    errors: [],
    handle: async ({ params, query, body, identity }: Call) => ({
      status: 200,
      data: { params, query, body, identity },
    }),
    ...change,
  };
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema';
const BODY = JSON.stringify({
  $schema: DIALECT,
  $id: 'test/body',
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 20 },
    size: { type: 'number' },
    free: { type: 'object', additionalProperties: true },
  },
  additionalProperties: false,
});
const QUERY = JSON.stringify({
  $schema: DIALECT,
  $id: 'test/query',
  type: 'object',
  properties: { limit: { type: 'integer', minimum: 1, maximum: 100 }, q: { type: 'string', maxLength: 20 } },
  additionalProperties: false,
});

interface RawReply {
  status: number;
  headers: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
  json: any;
}

export type Wire = ReturnType<typeof openWire>;

/** Opens a raw connection to a port of 127.0.0.1, which sends bytes unchanged and reads replies one by one, until the end of the test. */
export function openWire(t: Pick<Teardown, 'teardown'>, port: number) {
  const socket = connect({ port, host: '127.0.0.1' });
  let buffer = Buffer.alloc(0);
  let wake = (): void => undefined;
  let ended = false;
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => {
      ended = true;
      wake();
      resolve();
    });
  });
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    wake();
  });
  t.teardown(() => socket.destroy());

  return {
    socket,
    closed,
    write: (text: string | Buffer) => void socket.write(text),
    /** Returns the next complete reply. @throws Error if the connection ends before, or if a browser may sniff the type */
    async reply(): Promise<RawReply> {
      for (;;) {
        const found = takeReply(buffer);
        if (found !== undefined) {
          buffer = buffer.subarray(found.size);
          const { status, headers } = found.reply;
          if (status >= 200 && headers['x-content-type-options'] !== 'nosniff')
            throw new Error(`${status} may be sniffed`);
          return found.reply;
        }
        if (ended) throw new Error(`closed after ${JSON.stringify(buffer.toString('latin1'))}`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

function takeReply(buffer: Buffer): { reply: RawReply; size: number } | undefined {
  const end = buffer.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [first = '', ...rest] = buffer.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(first.split(' ')[1]);
  const headers = Object.fromEntries(
    rest.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const size = end + 4 + Number(headers['content-length'] ?? 0);
  if (buffer.length < size) return undefined;
  const text = buffer.subarray(end + 4, size).toString('utf8');
  return { reply: { status, headers, json: text === '' ? undefined : JSON.parse(text) }, size };
}

/** Returns the text of a request with a Host and, for a body, its length. `headers` are raw lines. */
export function requestText(method: string, target: string, headers: readonly string[] = [], body?: string): string {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  return `${[`${method} ${target} HTTP/1.1`, 'Host: test', ...headers, ...length].join('\r\n')}\r\n\r\n${body ?? ''}`;
}

export const JSON_TYPE = 'Content-Type: application/json';

export async function ask(
  t: Pick<Teardown, 'teardown'>,
  port: number,
  ...request: Parameters<typeof requestText>
): Promise<RawReply> {
  const wire = openWire(t, port);
  wire.write(requestText(...request));
  return wire.reply();
}
