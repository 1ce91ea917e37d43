import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One call that passed the proxy. */
export interface RecordedCall {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Body of the request as far as it has come. */
  sent: string;
  /** Status of the reply; 0 before it has come. */
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  /** Body of the reply as far as it has come. */
  text: string;
  /** The parsed body; undefined if it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: replies are compared with pages, field by field
  readonly json: any;
}

export interface RecordingProxy {
  readonly url: string;
  /** Returns the calls since the last `take`, in the order of their arrival. */
  take(): RecordedCall[];
  close(): Promise<void>;
}

/** Opens a server that forwards each call to `origin` unchanged, streams too, and records it. */
export async function openRecordingProxy(origin: string): Promise<RecordingProxy> {
  let calls: RecordedCall[] = [];
  const server = createServer((incoming, outgoing) => {
    const { method = '', url: target = '', rawHeaders } = incoming;
    const call: RecordedCall = {
      method,
      target,
      sent: '',
      status: 0,
      headers: {},
      text: '',
      get json() {
        return this.headers['content-type']?.startsWith('application/json') ? JSON.parse(this.text) : undefined;
      },
    };
    calls.push(call);
    const forwarded = request(origin + target, { method, headers: rawHeaders as never, agent: false });
    forwarded.on('response', (reply) => {
      call.status = reply.statusCode ?? 0;
      call.headers = reply.headers as RecordedCall['headers'];
      outgoing.writeHead(call.status, reply.rawHeaders);
      const decoder = new TextDecoder();
      reply.on('data', (chunk: Buffer) => (call.text += decoder.decode(chunk, { stream: true })));
      reply.pipe(outgoing);
    });
    // The client sees a cut connection, as it would without the proxy.
    forwarded.on('error', () => outgoing.destroy());
    outgoing.on('close', () => forwarded.destroy());
    const sent = new TextDecoder();
    incoming.on('data', (chunk: Buffer) => (call.sent += sent.decode(chunk, { stream: true })));
    incoming.pipe(forwarded);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take() {
      const taken = calls;
      calls = [];
      return taken;
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
