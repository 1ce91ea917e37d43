import { identity, role } from '#api/http/guards/identity.ts';
import { serveBench } from './bench-door.ts';
import { type EchoBody, echoed } from './echo.ts';

/** Our front door with a route that returns its input: everything that a `web` process does for a request, except the handler's work. */
await serveBench({
  level: process.env.LOG_LEVEL === 'info' ? 'info' : 'silent',
  isOutage: () => false,
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
