import { currentOf } from '#api/auth/current.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { endOtherSessions } from '#infra/mongo/auth/sessions.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

/** Ends every session of the caller but the one that asks. */
export async function endAllOtherSessions(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account, session } = current;
  const others = { accountId: account._id, keep: session._id, reason: 'ENDED' } as const;
  return { status: 200, data: { revoked: await endOtherSessions(deps.mongo, others) } };
}
