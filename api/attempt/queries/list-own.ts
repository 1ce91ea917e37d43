import type { AttemptDeps } from '#api/attempt/deps.ts';
import { viewerOf } from '#api/attempt/viewer.ts';
import type { Call, Reply } from '#api/route.ts';
import { listAttempts } from '#infra/mongo/attempt/attempts.ts';
import { MAX_LISTED_ATTEMPTS } from '#shared/attempt/limits.ts';
import { studentListItem } from '#shared/attempt/redact.ts';

/** The caller's own attempts, newest start first. */
export async function listOwnAttempts(deps: AttemptDeps, call: Call): Promise<Reply> {
  const found = await listAttempts(deps.mongo, viewerOf(call.identity).id, MAX_LISTED_ATTEMPTS);
  const now = new Date(deps.now());
  return { status: 200, data: found.map((attempt) => studentListItem(attempt, now)) };
}
