import { identity, role } from '#api/http/guards/identity.ts';
import { openServer } from '#api/server.ts';
import { openLog } from '#infra/log/log.ts';
import { httpMetrics, openMetrics } from '#infra/metrics/metrics.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { type EchoBody, echoed } from './echo.ts';

/** Our front door with a route that returns its input: everything that a `web` process does for a request, except the handler's work. */
const { log, access } = openLog({ level: process.env.LOG_LEVEL === 'info' ? 'info' : 'silent', name: 'web' });
const door = openServer({
  log,
  access,
  schemas: loadSchemas(),
  observe: httpMetrics(openMetrics({ process: true })),
  isOutage: () => false,
  draining: new AbortController().signal,
  trustedProxies: [],
  dropped: () => undefined,
  limits: {
    headTimeoutMs: 10_000,
    bodyTimeoutMs: 20_000,
    bodyBudgetBytes: 256 * 1_024 * 1_024,
    maxConnections: 32_768,
  },
  routes: [
    {
      method: 'POST',
      path: '/echo/:id',
      operation: 'echo',
      summary: 'Return the request',
      guards: [identity(), role('STUDENT')],
      body: { schema: 'attempt/save-answer-request', maxBytes: 1_048_576 },
      replies: [],
      errors: [],
      handle: async (call: { params: Readonly<Record<string, string>>; body: EchoBody }) => ({
        status: 200,
        data: echoed(call.params.id ?? '', call.body),
      }),
    },
  ],
});
await door.listen(Number(process.env.PORT), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
process.stdout.write('bench server is ready\n');
