import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface ReceivedCall {
  method: string;
  /** Path with query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** The body; empty without one. */
  bytes: Buffer;
  text: string;
  /** Parses the body; null without one. @throws SyntaxError if it is not JSON */
  json(): unknown;
}

/** Answers a call, at once or later. A call without an answer hangs. */
type Serve = (call: ReceivedCall, response: ServerResponse) => unknown;

/**
 * Opens an HTTP server on the loopback address, which other machines cannot reach, by default on a free port. It calls `serve` with each
 * call after reading it completely. If the caller dies while it sends, `serve` is not called. An error of `serve` is unhandled and ends the
 * process, so that a test fails; with `survivesErrors` it cuts the call.
 */
export async function listenLocally(serve: Serve, { port = 0, survivesErrors = false } = {}) {
  const server = createServer(async (request, response) => {
    const bytes = await buffer(request).catch(() => undefined);
    if (bytes === undefined) return;
    const { method = '', url: path = '', headers } = request;
    const text = bytes.toString('utf8');
    try {
      await serve(
        { method, path, headers, bytes, text, json: () => (text === '' ? null : JSON.parse(text)) },
        response,
      );
    } catch (error) {
      if (!survivesErrors) throw error;
      response.destroy();
    }
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Cuts every connection and waits until the port is free. */
    async close(): Promise<void> {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Opens a server that is closed at the end of the test. Returns its origin. */
export async function openReceiver(t: { teardown(work: () => unknown): void }, serve: Serve): Promise<string> {
  const server = await listenLocally(serve);
  t.teardown(server.close);
  return server.url;
}

/** Answers a call with JSON. A string is sent unchanged; without a body, `{}` is sent. */
export function answerJson(
  response: ServerResponse,
  { status, headers = {}, body = {} }: { status: number; headers?: Record<string, string> | undefined; body?: unknown },
): void {
  // Two calls: in a process that has loaded restify, writeHead is restify's and returns nothing.
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}
