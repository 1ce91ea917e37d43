import { randomBytes } from 'node:crypto';
import type { Call, Reply } from '#api/route.ts';
import { insertAccount } from '#infra/mongo/auth/accounts.ts';
import { changePassword as storePassword } from '#infra/mongo/auth/passwords.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import {
  ACCOUNT_CODE_BYTES,
  type Account,
  accountCodeOf,
  type StoredPassword,
  userView,
} from '#shared/auth/account.ts';
import { passwordFaults } from '#shared/auth/password-policy.ts';
import { newAccount, type Registration, readRegistration } from '#shared/auth/registration.ts';
import type { Current } from '#shared/auth/session.ts';
import type { ChangePasswordRequest, RegisterRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { checkPassword } from './check-password.ts';
import { type AuthDeps, currentOf } from './deps.ts';
import { newSession } from './new-session.ts';

/** Of 2^40 codes two hardly ever meet; three in a row mean that something else is wrong. */
const CODE_TRIES = 3;

/** A new identity, its default membership and its first session, all or nothing. Uniqueness is the indexes' to judge. */
export async function register(deps: AuthDeps, call: Call<RegisterRequest>): Promise<Reply | Rejection> {
  const registration = readRegistration(call.body, deps.settings.selfRegisterRoles);
  if (isRejection(registration)) return registration;
  const weak = weakPassword(deps, call.body.password, registration, '/password');
  if (weak !== null) return weak;
  // Before anything is looked up: whether the e-mail is taken must not show in the time.
  const password = await deps.hasher.hashPassword(call.body.password);
  for (let tries = 0; tries < CODE_TRIES; tries++) {
    const account = accountOf(deps, registration, password);
    const { session, stored: token, envelope } = await newSession(deps, account, call.headers['user-agent']);
    const result = await insertAccount(deps.mongo, { account, session, token }, FRONT_DOOR_BUDGET_MS);
    if (result.kind === 'inserted') return { status: 201, message: 'Registered', data: envelope };
    switch (result.what) {
      case 'email':
        return { rejected: 'AUTH_EMAIL_TAKEN' };
      case 'phone':
        return { rejected: 'AUTH_PHONE_TAKEN' };
      // Another code is drawn. A legacy id is never taken: who registers has none.
      case 'code':
      case 'legacyId':
        continue;
      default:
        return result.what satisfies never;
    }
  }
  throw new Error('no free account code was drawn');
}

function accountOf(deps: AuthDeps, registration: Registration, password: StoredPassword): Account {
  const now = deps.now();
  return newAccount(registration, {
    id: newId(now),
    accountCode: accountCodeOf(randomBytes(ACCOUNT_CODE_BYTES)),
    legacyId: null,
    password,
    organization: deps.settings.defaultOrganization,
    now: new Date(now),
  });
}

/** The identity of the caller, as it is now and not as its token says. */
export async function readMe(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  return isRejection(current) ? current : { status: 200, data: { user: userView(current.account) } };
}

/** A new password for who knows the current one; every other session ends with the change. */
export async function changePassword(deps: AuthDeps, call: Call<ChangePasswordRequest>): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account } = current;
  const { currentPassword, newPassword } = call.body;
  const weak = weakPassword(deps, newPassword, account, '/newPassword');
  if (weak !== null) return weak;
  const find = async () => account;
  const refused = await checkPassword(deps, call, { email: account.email, password: currentPassword, find });
  if (refused !== null) return refused;
  const to = await deps.hasher.hashPassword(newPassword);
  const changed = await replace(deps, current, to);
  return changed.kind === 'changed' ? changedReply(changed) : lookAgain(deps, call, to);
}

function replace({ mongo, now }: AuthDeps, { account, session }: Current, to: StoredPassword) {
  const change = { accountId: account._id, from: account.password.hash, to, keep: session._id, now: now() };
  return storePassword(mongo, change, FRONT_DOOR_BUDGET_MS);
}

function changedReply({ revoked }: { revoked: number }): Reply {
  return { status: 200, data: { revoked } };
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
  if (!isRight) return { rejected: 'AUTH_INVALID_CREDENTIALS' };
  const changed = await replace(deps, current, to);
  return changed.kind === 'changed' ? changedReply(changed) : { rejected: 'AUTH_INVALID_CREDENTIALS' };
}

/** Why this may not be somebody's new password, one detail per reason; null when it may. `path` is where it stands in the body. */
function weakPassword(
  deps: Pick<AuthDeps, 'settings' | 'isCommonPassword'>,
  password: string,
  whose: { email: string; fullName: string },
  path: string,
): Rejection | null {
  const faults = passwordFaults(password, {
    email: whose.email,
    fullName: whose.fullName,
    minLength: deps.settings.passwordMinLength,
    isCommon: deps.isCommonPassword,
  });
  if (faults.length === 0) return null;
  return { rejected: 'AUTH_WEAK_PASSWORD', details: faults.map((message) => ({ path, message })) };
}
