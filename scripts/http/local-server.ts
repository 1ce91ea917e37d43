import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bytesOf } from './call.ts';

/** An HTTP server that nobody outside this machine can reach. */
export interface LocalServer {
  url: string;
  /** Cuts every connection; resolves when the port is free. */
  close(): Promise<void>;
}

/** One call that arrived whole. */
export interface ReceivedCall {
  method: string;
  /** With its query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** The body; empty without one. */
  bytes: Buffer;
  /** The body as text. */
  text: string;
}

/** Answers a call, at once or later; one that it leaves alone hangs. */
export type Serve = (call: ReceivedCall, response: ServerResponse) => unknown;

export interface LocalServerOptions {
  /** A free one unless given. */
  port?: number;
  /** A call with a longer body is cut off; no limit unless given. */
  maxBodyBytes?: number;
  /** A call whose `serve` throws is cut off. Without this the error goes unhandled and ends the process: a test fails of it. */
  survivesErrors?: boolean;
}

/** Reads each call to its end before `serve` gets it; a call whose caller dies while it sends never arrives. */
export async function listenLocally(serve: Serve, options: LocalServerOptions = {}): Promise<LocalServer> {
  const { port = 0, maxBodyBytes, survivesErrors = false } = options;
  const server = createServer(async (request, response) => {
    const bytes = await bytesOf(request, maxBodyBytes).catch(() => undefined);
    if (bytes === undefined) return;
    const { method = '', url: path = '', headers } = request;
    try {
      await serve({ method, path, headers, bytes, text: bytes.toString('utf8') }, response);
    } catch (error) {
      if (!survivesErrors) throw error;
      response.destroy();
    }
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Such a server for one test; resolves with its origin. */
export async function openReceiver(t: { teardown(work: () => unknown): void }, serve: Serve): Promise<string> {
  const server = await listenLocally(serve);
  t.teardown(server.close);
  return server.url;
}

export function answerJson(
  response: ServerResponse,
  { status, headers = {}, body = {} }: { status: number; headers?: Record<string, string> | undefined; body?: unknown },
): void {
  // Apart: restify's own writeHead, in a process that has loaded it, gives nothing back.
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}
