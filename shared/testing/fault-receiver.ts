import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Teardown } from './open-test-mongo.ts';

/** What arrived at the receiver, headers and the bytes of the body as text. */
export interface ReceivedPost {
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
}

/** How the receiver behaves; each is a fault that real ones have. */
export type Behaviour =
  | { kind: 'answer'; status: number; headers?: Record<string, string>; body?: string }
  /** Takes the request and says nothing. */
  | { kind: 'hang' }
  /** Half a status line, then the connection is closed. */
  | { kind: 'cut-head' }
  /** A whole head, half a body, then the connection is closed. */
  | { kind: 'cut-body' }
  /** The head, and then a byte now and then, for ever. */
  | { kind: 'drip' }
  /** A body without end, as fast as it is taken. */
  | { kind: 'flood' };

export interface FaultReceiver {
  url: string;
  posts: ReceivedPost[];
  behaviour: Behaviour;
  /** Bytes of floods that were written so far. */
  flooded: () => number;
}

/** A real HTTP server that misbehaves as it is told: no stub shows what a cut connection does. */
export async function openFaultReceiver(t: Teardown): Promise<FaultReceiver> {
  const posts: ReceivedPost[] = [];
  let flooded = 0;
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the receiver has no port');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const receiver: FaultReceiver = {
    ...{ url: `http://127.0.0.1:${address.port}`, posts, behaviour: { kind: 'answer', status: 204 } },
    flooded: () => flooded,
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    posts.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString('utf8') });
    misbehave(receiver.behaviour, response);
  }

  function misbehave(behaviour: Behaviour, response: ServerResponse): void {
    switch (behaviour.kind) {
      case 'answer':
        response.writeHead(behaviour.status, behaviour.headers).end(behaviour.body);
        return;
      case 'hang':
        return;
      case 'cut-head':
        response.socket?.end('HTTP/1.1 200 O');
        return;
      case 'cut-body':
        response.writeHead(200, { 'content-length': '100' });
        response.write('ten bytes.', () => response.socket?.destroy());
        return;
      case 'drip': {
        response.writeHead(200).write('.');
        const timer = setInterval(() => response.write('.'), 20);
        response.on('close', () => clearInterval(timer));
        return;
      }
      case 'flood':
        response.writeHead(200);
        flood(response);
        return;
      default:
        behaviour satisfies never;
    }
  }

  function flood(response: ServerResponse): void {
    const chunk = Buffer.alloc(64 * 1024, '.');
    const more = () => {
      if (response.destroyed) return;
      flooded += chunk.length;
      response.write(chunk, (error) => void (error || setImmediate(more)));
    };
    more();
  }

  return receiver;
}
