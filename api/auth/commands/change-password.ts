import { type Current, currentOf } from '#api/auth/current.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { judgePassword } from '#api/auth/judged-password.ts';
import { weakPassword } from '#api/auth/weak-password.ts';
import type { Call, Reply } from '#api/route.ts';
import { changePassword as storePassword } from '#infra/mongo/auth/passwords.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import type { StoredPassword } from '#shared/auth/account.ts';
import type { ChangePasswordRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

/** A new password for who knows the current one; every other session ends with the change. */
export async function changePassword(deps: AuthDeps, call: Call<ChangePasswordRequest>): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account } = current;
  const { currentPassword, newPassword } = call.body;
  const weak = weakPassword(deps, newPassword, account, '/newPassword');
  if (weak !== null) return weak;
  const stored = async () => account.password;
  const refused = await judgePassword(deps, call, { email: account.email, password: currentPassword, stored });
  if (refused !== null) return refused;
  const to = await deps.hasher.hashPassword(newPassword);
  return (await replaced(deps, current, to)) ?? lookAgain(deps, call, to);
}

/** Null: the account was written while the password was being judged. */
async function replaced(deps: AuthDeps, { account, session }: Current, to: StoredPassword): Promise<Reply | null> {
  const change = { accountId: account._id, from: account.password.hash, to, keep: session._id, now: deps.now() };
  const changed = await storePassword(deps.mongo, change, FRONT_DOOR_BUDGET_MS);
  return changed === 'changed meanwhile' ? null : { status: 200, data: changed };
}

/** The account was suspended, or its password changed, or a login made the hash of the same password anew. */
async function lookAgain(
  deps: AuthDeps,
  call: Call<ChangePasswordRequest>,
  to: StoredPassword,
): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const isRight = await deps.hasher.verifyPassword(call.body.currentPassword, current.account.password);
  return (isRight ? await replaced(deps, current, to) : null) ?? { rejected: 'AUTH_INVALID_CREDENTIALS' };
}
