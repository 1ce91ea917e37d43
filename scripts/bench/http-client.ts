import { once } from 'node:events';
import { connect } from 'node:net';

export interface HttpReply {
  status: number;
  body: Buffer;
}

/** One kept-alive connection, one request at a time. */
export interface HttpClient {
  request(method: string, path: string, headers: Readonly<Record<string, string>>, body?: string): Promise<HttpReply>;
  close(): void;
}

const HEAD_END = Buffer.from('\r\n\r\n');

/**
 * A client that does no more than it must: what it spends would count as the server's time. It understands replies
 * with a Content-Length and nothing else.
 */
export async function openHttpClient(port: number): Promise<HttpClient> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let chunks: Buffer[] = [];
  let size = 0;
  let wanted = 0;
  let status = 0;
  let bodyAt = 0;
  let waiting: PromiseWithResolvers<HttpReply> | undefined;

  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (wanted === 0) readHead();
    if (wanted > 0 && size >= wanted) finish();
  });
  socket.on('error', (error) => waiting?.reject(error));
  socket.on('close', () => waiting?.reject(new Error('the server closed the connection')));
  await once(socket, 'connect');

  function readHead(): void {
    const bytes = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    const end = bytes?.indexOf(HEAD_END) ?? -1;
    if (bytes === undefined || end < 0) return;
    const head = bytes.toString('latin1', 0, end);
    status = Number(head.slice(9, 12));
    bodyAt = end + HEAD_END.length;
    wanted = bodyAt + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  }
  function finish(): void {
    const body = Buffer.concat(chunks).subarray(bodyAt, wanted);
    [chunks, size, wanted] = [[], 0, 0];
    const done = waiting;
    waiting = undefined;
    done?.resolve({ status, body });
  }

  return {
    request(method, path, headers, body) {
      waiting = Promise.withResolvers();
      if (socket.destroyed) waiting.reject(new Error('the server closed the connection while it was idle'));
      let head = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n`;
      for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
      const length =
        body === undefined ? '' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
      socket.write(`${head}${length}\r\n${body ?? ''}`);
      return waiting.promise;
    },
    close: () => socket.destroy(),
  };
}
