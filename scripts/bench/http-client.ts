import { once } from 'node:events';
import { Agent } from 'node:http';
import { connect } from 'node:net';
import { type HttpAnswer, send } from '#testing/clients/call.ts';

/** One keep-alive connection that sends one request at a time. */
export interface HttpClient {
  request(method: string, path: string, headers: Readonly<Record<string, string>>, body?: string): Promise<HttpAnswer>;
  close(): void;
}

/** Connects to the server on `port` in advance, so that no request includes the handshake. A body is sent as JSON. */
export async function openHttpClient(port: number): Promise<HttpClient> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  agent.createConnection = () => socket;
  const origin = `http://127.0.0.1:${port}`;
  return {
    async request(method, target, headers, body) {
      if (socket.destroyed) throw new Error('the server closed the connection while it was idle');
      const typed = body === undefined ? headers : { ...headers, 'content-type': 'application/json' };
      return send(origin, { method, target, headers: typed, body, agent });
    },
    close: () => agent.destroy(),
  };
}
