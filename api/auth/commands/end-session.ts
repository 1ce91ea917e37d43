import { currentOf } from '#api/auth/current.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { endSession } from '#infra/mongo/auth/sessions.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

/** Ends one session of the caller; somebody else's, an unknown and an ended one look alike. */
export async function endOneSession(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { sessionId = '' } = call.params;
  const ended = await endSession(deps.mongo, { accountId: current.account._id, sessionId, reason: 'ENDED' });
  return ended ? { status: 200, data: { revoked: true } } : { rejected: 'SESSION_NOT_FOUND' };
}
