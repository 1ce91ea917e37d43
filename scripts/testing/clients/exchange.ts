import { Agent, type IncomingHttpHeaders, request } from 'node:http';

/** What came back, or that nothing did: then the request may or may not have taken effect. */
export interface Answered<Data> {
  status: number;
  headers: IncomingHttpHeaders;
  code: string | null;
  message: string;
  data: Data;
}

/** No reply: refused, reset or cut. */
export class NoReply extends Error {
  /**
   * The request went out on a kept-alive connection at the moment at which the server closed it as idle: no server can
   * rule that out, and every client must be ready to ask again (RFC 9112, section 9.3.1).
   */
  readonly metIdleClose: boolean;

  constructor(reason: unknown, metIdleClose = false) {
    super(reason instanceof Error ? reason.message : String(reason), { cause: reason });
    this.name = 'NoReply';
    this.metIdleClose = metIdleClose;
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const PATIENCE_MS = 60_000;

/** One request with a JSON body. Rejects with NoReply; every status is an answer. */
export function exchange<Data = unknown>(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: unknown } = {},
): Promise<Answered<Data>> {
  const text = options.body === undefined ? undefined : JSON.stringify(options.body);
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      {
        agent,
        method: options.method ?? 'GET',
        headers: {
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': `${Buffer.byteLength(text)}` }),
          ...options.headers,
        },
        timeout: PATIENCE_MS,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', (error) => reject(new NoReply(error)));
        response.on('end', () => {
          if (!response.complete) return reject(new NoReply('cut'));
          const body = JSON.parse(Buffer.concat(chunks).toString() || '{}');
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            code: body.code ?? null,
            message: body.message ?? '',
            data: body.data,
          });
        });
      },
    );
    sent.on('timeout', () => sent.destroy(new Error(`no reply within ${PATIENCE_MS} ms`)));
    sent.on('error', (error) =>
      reject(new NoReply(error, sent.reusedSocket && 'code' in error && error.code === 'ECONNRESET')),
    );
    sent.end(text);
  });
}
