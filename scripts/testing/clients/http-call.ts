import { Agent, request as openRequest } from 'node:http';

export interface HttpRequest {
  /** A list sends the header several times. */
  headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** An object goes as JSON with its media type; text and bytes go as they are, with the media type that `headers` give. */
  body?: unknown;
}

export interface HttpReply {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  text: string;
  /** The parsed body; undefined where it is no JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
  json: any;
  /** `json.data`. */
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
  data: any;
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** One request, exactly as told: no header but Host, length and, for a JSON body, its type is added. */
export async function callHttp(
  url: string,
  method: string,
  target: string,
  call: HttpRequest = {},
): Promise<HttpReply> {
  const { hostname, port } = new URL(url);
  const isRaw = typeof call.body === 'string' || call.body instanceof Uint8Array;
  const bytes =
    call.body === undefined ? undefined : Buffer.from(isRaw ? (call.body as string) : JSON.stringify(call.body));
  const headers: Record<string, string | string[]> = {};
  if (bytes !== undefined) {
    headers['content-length'] = String(bytes.length);
    if (!isRaw) headers['content-type'] = 'application/json';
  }
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    if (value !== undefined) headers[name.toLowerCase()] = typeof value === 'string' ? value : [...value];
  }
  for (let tried = 1; ; tried++) {
    try {
      return await once({ agent, hostname, port, method, path: target, headers }, bytes);
    } catch (error) {
      // A kept connection may be closed by the door just as it is used again; the request has not been read then.
      if (tried > 1 || (error as NodeJS.ErrnoException).code !== 'ECONNRESET' || !(error as Reused).reused) throw error;
    }
  }
}

interface Reused {
  reused?: boolean;
}

function once(options: object, bytes: Buffer | undefined): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    const request = openRequest(options, async (response) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of response) chunks.push(chunk);
      } catch (error) {
        return reject(error);
      }
      const text = Buffer.concat(chunks).toString('utf8');
      const isJson = response.headers['content-type']?.startsWith('application/json') === true;
      const json = isJson && text !== '' ? JSON.parse(text) : undefined;
      const flat = Object.entries(response.headers).map(([name, value]) => [name, String(value)]);
      resolve({ status: response.statusCode ?? 0, headers: Object.fromEntries(flat), text, json, data: json?.data });
    });
    request.on('error', (error) => reject(Object.assign(error, { reused: request.reusedSocket })));
    request.end(bytes);
  });
}
