import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import * as bcrypt from 'bcrypt';
import { betterAuth } from 'better-auth';
import { mongodbAdapter } from 'better-auth/adapters/mongodb';
import { bearer, jwt } from 'better-auth/plugins';
import { MongoClient } from 'mongodb';

/**
 * better-auth with its defaults on our MongoDB: e-mail and password with bcrypt at our cost, sessions that every `get-session` extends.
 * Under `/signed` it also has its JWT plugin, so that `get-session` returns a signed access token.
 */
const { PORT, MONGODB_URL = '', MONGODB_DATABASE, PASSWORD_COST } = process.env;
const client = await new MongoClient(MONGODB_URL).connect();

function open(basePath: string, plugins: Parameters<typeof betterAuth>[0]['plugins']) {
  return betterAuth({
    basePath,
    baseURL: `http://127.0.0.1:${PORT}`,
    secret: 'bench-secret-of-more-than-32-bytes',
    database: mongodbAdapter(client.db(MONGODB_DATABASE), { client }),
    emailAndPassword: {
      enabled: true,
      password: {
        hash: (password) => bcrypt.hash(password, Number(PASSWORD_COST)),
        verify: ({ password, hash }) => bcrypt.compare(password, hash),
      },
    },
    session: { updateAge: 0 },
    plugins: plugins ?? [],
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    logger: { level: 'error' },
  });
}

const plain = open('/plain', [bearer()]);
const signed = open('/signed', [bearer(), jwt()]);

/** Answers a request. better-auth's own handler for Node answers in chunks; one piece is faster. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { method = 'GET', url = '/', headers } = request;
  const asked = new Request(`http://127.0.0.1:${PORT}${url}`, {
    method,
    headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
    ...(chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}),
  });
  const reply = await (url.startsWith('/signed') ? signed : plain).handler(asked);
  const body = Buffer.from(await reply.arrayBuffer());
  response.writeHead(reply.status, [...reply.headers, ['content-length', String(body.length)]].flat());
  response.end(body);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    response.destroy();
  });
});
// Keep the connections of clients that wait for their turn.
server.keepAliveTimeout = 0;
server.listen(Number(PORT), '127.0.0.1', () => process.stdout.write('bench server is ready\n'));
process.on('SIGTERM', () => process.exit(0));
