import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import * as bcrypt from 'bcrypt';
import type { Db, MongoClient } from 'mongodb';
import { peer } from '#scripts/bench/peers.ts';

interface BetterAuth {
  betterAuth(options: object): { handler(request: Request): Promise<Response> };
}
interface MongodbAdapter {
  mongodbAdapter(db: Db, options: { client: MongoClient }): unknown;
}

/** better-auth with its defaults on our MongoDB: e-mail and password with bcrypt at our cost. */
const { PORT, MONGODB_URL = '', MONGODB_DATABASE, PASSWORD_COST } = process.env;
// The driver beside the adapter: it knows the ids of its own driver alone.
const driver = await peer<typeof import('mongodb')>('mongodb');
const client = await new driver.MongoClient(MONGODB_URL).connect();
const { betterAuth } = await peer<BetterAuth>('better-auth');
const { mongodbAdapter } = await peer<MongodbAdapter>('better-auth/adapters/mongodb');
const auth = betterAuth({
  basePath: '/',
  baseURL: `http://127.0.0.1:${PORT}`,
  secret: 'bench-secret-of-more-than-32-bytes',
  database: mongodbAdapter(client.db(MONGODB_DATABASE), { client }),
  emailAndPassword: {
    enabled: true,
    password: {
      hash: (password: string) => bcrypt.hash(password, Number(PASSWORD_COST)),
      verify: ({ password, hash }: { password: string; hash: string }) => bcrypt.compare(password, hash),
    },
  },
  rateLimit: { enabled: false },
  telemetry: { enabled: false },
  logger: { level: 'error' },
});

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
  const reply = await auth.handler(asked);
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
