import { currentOf } from '#api/auth/current.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { userView } from '#shared/auth/account.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

/** The identity of the caller, as it is now and not as its token says. */
export async function readMe(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  return isRejection(current) ? current : { status: 200, data: { user: userView(current.account) } };
}
