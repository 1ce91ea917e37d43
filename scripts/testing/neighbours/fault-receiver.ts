import type { ServerResponse } from 'node:http';
import { openReceiver, type ReceivedCall } from '#scripts/sandbox/local-server.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';

/** Behaviour of the receiver; apart from `answer`, faults that occur in real servers. */
export type Behaviour =
  | { kind: 'answer'; status: number; headers?: Record<string, string>; body?: string }
  /** Reads the request and never replies. */
  | { kind: 'hang' }
  /** Sends half a status line, then closes the connection. */
  | { kind: 'cut-head' }
  /** Sends a complete head and part of the body, then closes the connection. */
  | { kind: 'cut-body' }
  /** Sends the head, then one byte every 20 ms for ever. */
  | { kind: 'drip' }
  /** Sends a body without end, as fast as the client reads it. */
  | { kind: 'flood' };

export type FaultReceiver = Awaited<ReturnType<typeof openFaultReceiver>>;

/** Opens a real HTTP server that behaves as `behaviour` demands. A stub could not show the effects of a cut connection. */
export async function openFaultReceiver(t: Teardown) {
  let flooded = 0;
  const url = await openReceiver(t, (call, response) => {
    receiver.posts.push(call);
    misbehave(receiver.behaviour, response);
  });
  const receiver = {
    url,
    posts: [] as ReceivedCall[],
    behaviour: { kind: 'answer', status: 204 } as Behaviour,
    /** Returns the number of bytes that floods have written so far. */
    flooded: () => flooded,
  };

  function misbehave(behaviour: Behaviour, response: ServerResponse): void {
    switch (behaviour.kind) {
      case 'answer':
        response.writeHead(behaviour.status, behaviour.headers);
        response.end(behaviour.body);
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
