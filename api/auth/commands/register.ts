import { randomBytes } from 'node:crypto';
import type { AuthDeps } from '#api/auth/deps.ts';
import { newSession } from '#api/auth/new-session.ts';
import { weakPassword } from '#api/auth/weak-password.ts';
import type { Call, Reply } from '#api/route.ts';
import { insertAccount } from '#infra/mongo/auth/accounts.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { ACCOUNT_CODE_BYTES, type Account, accountCodeOf, type StoredPassword } from '#shared/auth/account.ts';
import { newAccount, type Registration, readRegistration } from '#shared/auth/registration.ts';
import type { RegisterRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';

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
    if (result === 'inserted') return { status: 201, message: 'Registered', data: envelope };
    if (result === 'email taken') return { rejected: 'AUTH_EMAIL_TAKEN' };
    if (result === 'phone taken') return { rejected: 'AUTH_PHONE_TAKEN' };
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
