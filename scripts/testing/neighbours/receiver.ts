import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** One call that arrived whole. */
export interface ReceivedCall {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  /** The body as it came; empty without one. */
  text: string;
}

/**
 * A real HTTP server of one test, at the origin that this resolves to. Each call is read to its end before `serve` has it; one whose
 * caller was killed while it sent never arrives. Gone, with its connections, when the test ends.
 */
export async function openReceiver(
  t: Teardown,
  serve: (call: ReceivedCall, response: ServerResponse) => unknown,
): Promise<string> {
  const server = createServer(async (request, response) => {
    const text = await textOf(request);
    if (text === undefined) return;
    await serve({ method: request.method ?? '', path: request.url ?? '', headers: request.headers, text }, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the receiver has no port');
  return `http://127.0.0.1:${address.port}`;
}

export function answerJson(
  response: ServerResponse,
  { status, headers = {}, body = {} }: { status: number; headers?: Record<string, string> | undefined; body?: unknown },
): void {
  // Apart: restify's own writeHead, in a process that has loaded it, gives nothing back.
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

async function textOf(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks).toString('utf8');
}
