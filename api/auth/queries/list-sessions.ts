import { currentOf } from '#api/auth/current.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { liveSessions } from '#infra/mongo/auth/sessions.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

/** The caller's live sessions, the one used last first. */
export async function listSessions(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const found = await liveSessions(deps.mongo, current.account._id, deps.now());
  const sessions = found.map((session) => ({
    id: session._id,
    current: session._id === current.session._id,
    createdAt: session.createdAt.toISOString(),
    lastUsedAt: session.lastUsedAt.toISOString(),
    expiresAt: session.expiresAt.toISOString(),
    userAgent: session.userAgent,
  }));
  return { status: 200, data: { sessions } };
}
