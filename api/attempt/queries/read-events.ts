import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { viewerOf } from '#api/attempt/viewer.ts';
import type { Call, RawReply } from '#api/route.ts';
import { allEvents } from '#infra/mongo/attempt/events.ts';
import { redactEvents } from '#shared/attempt/redact.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { readable } from './read-attempt.ts';

/**
 * The whole log, ascending, written as it comes from the cursor: ten thousand events of 8 KiB must not stand in
 * memory for each reader. A fault after the first byte cuts the connection, so that a torn list cannot pass for one.
 */
export async function readEvents(deps: AttemptDeps, call: Call): Promise<RawReply | Rejection> {
  const attempt = await readable(deps, call);
  if (isRejection(attempt)) return attempt;
  const viewer = viewerOf(call.identity);
  const now = new Date(deps.now());

  async function write(response: ServerResponse): Promise<void> {
    response.writeHead(200, {
      'Content-Type': 'application/json; charset=utf-8',
      'Cache-Control': 'no-store',
      'X-Request-Id': call.requestId,
    });
    response.write('{"success":true,"data":[');
    let separator = '';
    for await (const event of allEvents(deps.mongo, attempt as Exclude<typeof attempt, Rejection>)) {
      if (call.signal.aborted) return;
      const [shown] = redactEvents(attempt as Exclude<typeof attempt, Rejection>, [event], viewer, now);
      const flowing = response.write(separator + JSON.stringify(shown));
      separator = ',';
      if (!flowing) await once(response, 'drain', { signal: call.signal });
    }
    response.end('],"message":"OK"}');
  }
  return { raw: write };
}
