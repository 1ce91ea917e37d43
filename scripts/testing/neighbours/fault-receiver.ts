import type { ServerResponse } from 'node:http';
import { openReceiver, type ReceivedCall } from '#scripts/http/local-server.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

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
  posts: ReceivedCall[];
  behaviour: Behaviour;
  /** Bytes of floods that were written so far. */
  flooded: () => number;
}

/** A real HTTP server that misbehaves as it is told: no stub shows what a cut connection does. */
export async function openFaultReceiver(t: Teardown): Promise<FaultReceiver> {
  const posts: ReceivedCall[] = [];
  let flooded = 0;
  const url = await openReceiver(t, (call, response) => {
    posts.push(call);
    misbehave(receiver.behaviour, response);
  });
  const receiver: FaultReceiver = {
    url,
    posts,
    behaviour: { kind: 'answer', status: 204 },
    flooded: () => flooded,
  };

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
