import { randomBytes } from 'node:crypto';
import type { Call, Reply } from '#api/route.ts';
import { insertAccount } from '#infra/mongo/auth/accounts.ts';
import { learnPair, pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { changePassword as storePassword } from '#infra/mongo/auth/passwords.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { HASHER_BUSY, HasherBusy } from '#infra/passwords/fair-queue.ts';
import type { HashLane } from '#infra/passwords/hash-queue.ts';
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
import { takeTurn } from './admission.ts';
import { checkPassword, throttled } from './check-password.ts';
import type { RegistrationOutcome } from './counts.ts';
import { type AuthDeps, currentOf, provenLane } from './deps.ts';
import { newSession } from './new-session.ts';

/** Codes to draw before a registration fails. A collision among 2^40 codes is rare; three in a row mean another fault. */
const MAX_CODE_DRAWS = 3;

/** Answers a registration and counts its outcome. */
export async function register(deps: AuthDeps, call: Call<RegisterRequest>): Promise<Reply | Rejection> {
  try {
    const result = await createdAccount(deps, call);
    deps.counts.registration(outcomeOf(result));
    return result;
  } catch (error) {
    if (error instanceof HasherBusy) deps.counts.registration('busy');
    throw error;
  }
}

function outcomeOf(result: Reply | Rejection): RegistrationOutcome {
  if (!isRejection(result)) return 'succeeded';
  if (result.rejected === 'AUTH_THROTTLED') return 'throttled';
  return result.rejected === 'AUTH_EMAIL_TAKEN' || result.rejected === 'AUTH_PHONE_TAKEN' ? 'taken' : 'refused';
}

/** Creates an account, its default membership and its first session in one transaction. Unique indexes enforce uniqueness. */
async function createdAccount(deps: AuthDeps, call: Call<RegisterRequest>): Promise<Reply | Rejection> {
  const registration = readRegistration(call.body, deps.settings.selfRegisterRoles);
  if (isRejection(registration)) return registration;
  const weak = await weakPassword(deps, call.body.password, registration, '/password');
  if (weak !== null) return weak;
  // Hash before any lookup, so that the response time does not reveal whether the e-mail is taken.
  const address = deps.addressOf(call);
  const waitMs = await registrationWait(deps, address);
  if (waitMs > 0) return throttled(waitMs);
  const password = await deps.hasher.hashPassword(call.body.password, laneOf(address));
  const { registrationTurns } = deps;
  const attempt = throttleKey(`${registration.email} ${registration.phone ?? ''}`);
  for (let draws = 0; draws < MAX_CODE_DRAWS; draws++) {
    const account = accountOf(deps, registration, password);
    const { session, stored: token, signedIn } = await newSession(deps, account, call.headers['user-agent']);
    const result = await insertAccount(deps.mongo, { account, session, token }, FRONT_DOOR_BUDGET_MS);
    if (result.kind === 'inserted') {
      // The account exists: a 503 would make the caller repeat and get 409. Without a known pair its next login is a stranger's.
      const known = learnPair(deps.mongo, pairOf(account.email, address), deps.now()).catch(() => undefined);
      await Promise.all([known, registrationTurns.succeeded(address, attempt)]);
      return { status: 201, message: 'Registered', ...signedIn };
    }
    switch (result.field) {
      case 'email':
        await registrationTurns.failed(address, attempt);
        return { rejected: 'AUTH_EMAIL_TAKEN' };
      case 'phone':
        await registrationTurns.failed(address, attempt);
        return { rejected: 'AUTH_PHONE_TAKEN' };
      // Draw another code. A legacy id is never taken, because a new registration has none.
      case 'code':
      case 'legacyId':
        continue;
      default:
        return result.field satisfies never;
    }
  }
  throw new Error('no unused account code found');
}

const laneOf = (address: string): HashLane => ({ kind: 'registration', address, account: null });

/**
 * Returns the ms that a registration from this address has to wait; 0 if its password may be hashed
 * now. Refused before the hash, an address learns nothing about the e-mail. @throws HasherBusy
 */
async function registrationWait(deps: AuthDeps, address: string): Promise<number> {
  const { registrationTurns, evidence, hasher } = deps;
  // A flood whose line is full then costs Redis nothing.
  if (!hasher.hasRoom(laneOf(address))) throw HASHER_BUSY;
  const turn = await registrationTurns.look(address);
  if (turn.spacingMs > 0) await evidence.slowed(address, turn.spacingMs);
  return takeTurn(registrationTurns, address, turn);
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

/** Returns the caller's account as it is stored now, not as the access token describes it. */
export async function readMe(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  return isRejection(current) ? current : { status: 200, data: { user: userView(current.account) } };
}

/** Stores a new password if the caller knows the current one. The change ends every other session of the account. */
export async function changePassword(deps: AuthDeps, call: Call<ChangePasswordRequest>): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account } = current;
  const { currentPassword, newPassword } = call.body;
  const weak = await weakPassword(deps, newPassword, account, '/newPassword');
  if (weak !== null) return weak;
  const find = async () => account;
  const attempt = { email: account.email, password: currentPassword, find, isAnonymous: false };
  const refused = await checkPassword(deps, call, attempt);
  if (refused !== null) return refused;
  const to = await deps.hasher.hashPassword(newPassword, provenLane(deps, call, account.email));
  const changed = await storeChange(deps, current, to);
  return changed.kind === 'changed' ? changedReply(changed) : repeatChange(deps, call, to);
}

async function storeChange({ mongo, now, endStreams }: AuthDeps, { account, session }: Current, to: StoredPassword) {
  const change = { accountId: account._id, from: account.password.hash, to, keep: session._id, now: now() };
  const changed = await storePassword(mongo, change, FRONT_DOOR_BUDGET_MS);
  if (changed.kind === 'changed' && changed.revoked > 0) endStreams(account._id);
  return changed;
}

function changedReply({ revoked }: { revoked: number }): Reply {
  return { status: 200, data: { revoked } };
}

/** Repeats the change once: the account was suspended, its password changed, or a login rehashed the same password. */
async function repeatChange(
  deps: AuthDeps,
  call: Call<ChangePasswordRequest>,
  to: StoredPassword,
): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const lane = provenLane(deps, call, current.account.email);
  const isRight = await deps.hasher.verifyPassword(call.body.currentPassword, current.account.password, lane);
  if (!isRight) return { rejected: 'AUTH_INVALID_CREDENTIALS' };
  const changed = await storeChange(deps, current, to);
  return changed.kind === 'changed' ? changedReply(changed) : { rejected: 'AUTH_INVALID_CREDENTIALS' };
}

/** Returns why the policy refuses the new password, one detail per reason, or null. `path` is its JSON pointer in the body. */
async function weakPassword(
  deps: Pick<AuthDeps, 'settings' | 'commonPasswords'>,
  password: string,
  whose: { email: string; fullName: string },
  path: string,
): Promise<Rejection | null> {
  const faults = passwordFaults(password, {
    email: whose.email,
    fullName: whose.fullName,
    minLength: deps.settings.passwordMinLength,
    isCommon: await deps.commonPasswords(),
  });
  if (faults.length === 0) return null;
  return { rejected: 'AUTH_WEAK_PASSWORD', details: faults.map((message) => ({ path, message })) };
}
