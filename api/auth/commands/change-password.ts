import type { ChangePasswordRequest } from '../../../shared/generated/auth.ts';
import { changePassword as storePassword } from '../../../shared/infra/mongo/auth/change-password.ts';
import { FRONT_DOOR_BUDGET_MS } from '../../../shared/infra/mongo/transaction.ts';
import { isRejection, type Rejection } from '../../../shared/kernel/errors.ts';
import type { Call, Reply } from '../../route.ts';
import { currentOf } from '../current.ts';
import type { AuthDeps } from '../deps.ts';
import { judgePassword } from '../judged-password.ts';
import { weakPassword } from '../weak-password.ts';

/** A new password for who knows the current one; every other session ends with the change. */
export async function changePassword(deps: AuthDeps, call: Call<ChangePasswordRequest>): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account, session } = current;
  const { currentPassword, newPassword } = call.body;
  const weak = weakPassword(deps, newPassword, account, '/newPassword');
  if (weak !== null) return weak;
  const stored = async () => account.password;
  const refused = await judgePassword(deps, call, { email: account.email, password: currentPassword, stored });
  if (refused !== null) return refused;
  const changed = await storePassword(
    deps.mongo,
    {
      ...{ accountId: account._id, from: account.password.hash, keep: session._id, now: deps.now() },
      to: await deps.hasher.hashPassword(newPassword),
    },
    FRONT_DOOR_BUDGET_MS,
  );
  // Two changes at once: what this one knew is no longer the password.
  return changed === 'changed meanwhile' ? { rejected: 'AUTH_INVALID_CREDENTIALS' } : { status: 200, data: changed };
}
