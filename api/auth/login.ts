import type { Call, Reply } from '#api/route.ts';
import { findAccountByEmail } from '#infra/mongo/auth/accounts.ts';
import { upgradePassword } from '#infra/mongo/auth/passwords.ts';
import { openSession } from '#infra/mongo/auth/sessions.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import { type Account, existing, whyAccountRefused } from '#shared/auth/account.ts';
import { normalizeEmail } from '#shared/auth/registration.ts';
import type { LoginRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { withPassword } from './check-password.ts';
import type { LoginOutcome } from './counts.ts';
import { type AuthDeps, provenLane } from './deps.ts';
import { newSession } from './new-session.ts';

const INVALID: Rejection = { rejected: 'AUTH_INVALID_CREDENTIALS' };

/** Answers a login and counts its outcome. */
export async function login(deps: AuthDeps, call: Call<LoginRequest>): Promise<Reply | Rejection> {
  let outcome: LoginOutcome | null = null;
  try {
    const result = await openedSession(deps, call, (by) => {
      outcome = `throttled_${by}`;
    });
    deps.counts.login(outcome ?? outcomeOf(result));
    return result;
  } catch (error) {
    if (error instanceof HasherBusy) deps.counts.login('busy');
    throw error;
  }
}

function outcomeOf(result: Reply | Rejection): LoginOutcome {
  if (!isRejection(result)) return 'succeeded';
  return result.rejected === 'AUTH_ACCOUNT_DISABLED' ? 'disabled' : 'wrong_password';
}

/**
 * Opens a session for e-mail and password. An unknown e-mail costs the same work and gets the same bytes as a wrong password.
 * Only a caller with the right password learns that the account is suspended.
 */
async function openedSession(
  deps: AuthDeps,
  call: Call<LoginRequest>,
  throttled: (by: 'account' | 'address') => void,
): Promise<Reply | Rejection> {
  const email = normalizeEmail(call.body.email);
  const { password } = call.body;
  const find = () => findExisting(deps, email);
  return withPassword(
    deps,
    call,
    { email, password, find, throttled, isAnonymous: true },
    (account, { isNewAddress }) => {
      const strangerFrom = isNewAddress ? deps.evidence.hashOf(deps.addressOf(call)) : null;
      return signIn(deps, call, account, { password, strangerFrom });
    },
  );
}

async function findExisting({ mongo }: AuthDeps, email: string): Promise<Account | null> {
  return existing(await findAccountByEmail(mongo, email));
}

interface Proof {
  password: string;
  /** The hash of the caller's address if it and the account are no known pair; otherwise null. */
  strangerFrom: string | null;
}

async function signIn(
  deps: AuthDeps,
  call: Call,
  account: Account,
  proof: Proof,
  isAgain = false,
): Promise<Reply | Rejection> {
  const refused = whyAccountRefused(account);
  if (refused !== null) return refused;
  const passwordHash = await upToDate(deps, call, account, proof.password);
  const { session, stored: token, signedIn } = await newSession(deps, account, call.headers['user-agent']);
  const opened = await openSession(
    deps.mongo,
    { session, token, passwordHash, strangerFrom: proof.strangerFrom },
    FRONT_DOOR_BUDGET_MS,
  );
  if (opened.kind === 'outdated') return isAgain ? INVALID : repeatLogin(deps, call, account, proof);
  return { status: 200, message: 'Logged in', ...signedIn };
}

/** Repeats the login once: while the password was checked, the account was changed or suspended, or another login rehashed it. */
async function repeatLogin(deps: AuthDeps, call: Call, before: Account, proof: Proof): Promise<Reply | Rejection> {
  const account = await findExisting(deps, before.email);
  if (account === null) return INVALID;
  const lane = provenLane(deps, call, account.email);
  if (!(await deps.hasher.verifyPassword(proof.password, account.password, lane))) return INVALID;
  return signIn(deps, call, account, proof, true);
}

/** Returns the account's hash. If it has an old scheme or cost, stores a new hash first, while the password is known. */
async function upToDate(deps: AuthDeps, call: Call, account: Account, password: string): Promise<string> {
  const { hash } = account.password;
  if (!deps.hasher.isOutdated(account.password)) return hash;
  const fresh = await deps.hasher.hashPassword(password, provenLane(deps, call, account.email));
  const upgraded = await upgradePassword(deps.mongo, account._id, hash, fresh);
  return upgraded.kind === 'upgraded' ? fresh.hash : hash;
}
