import { loadSchemas } from '#infra/schema/validator.ts';
import { peer } from '#scripts/bench/peers.ts';
import { type EchoBody, echoed, REPLY_SCHEMA } from './echo.ts';

interface FastifyServer {
  post(
    path: string,
    options: { schema: { body: object; response: Record<number, object> } },
    handler: (request: { params: unknown; body: unknown }) => Promise<object>,
  ): void;
  listen(address: { port: number; host: string }): Promise<unknown>;
}

/** Fastify with its defaults, the same body schema (with its references resolved) and a schema for its serialiser. */
const { default: Fastify } = await peer<{ default(options: { logger: boolean }): FastifyServer }>('fastify');
const server = Fastify({ logger: process.env.LOG_LEVEL === 'info' });
server.post(
  '/echo/:id',
  { schema: { body: loadSchemas().resolved('attempt/save-answer-request'), response: { 200: REPLY_SCHEMA } } },
  async (request) => {
    const { id } = request.params as { id: string };
    return { success: true, data: echoed(id, request.body as EchoBody), message: 'OK' };
  },
);
await server.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
process.on('SIGTERM', () => process.exit(0));
process.stdout.write('bench server is ready\n');
