import { findAccountByEmail } from '#infra/mongo/auth/accounts.ts';
import { accounts, throttles } from '#infra/mongo/auth/collections.ts';
import { makeAdmin, setPassword, setStatus, signOut, unlockAccount } from '#infra/mongo/auth/operator.ts';
import { liveSessions, newestSecurityEvents } from '#infra/mongo/auth/sessions.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import { ACCOUNT_STATUSES, type Account, userView } from '#shared/auth/account.ts';
import { passwordFaults } from '#shared/auth/password-policy.ts';
import { isEmail, normalizeEmail } from '#shared/auth/registration.ts';
import { importAccounts } from './import-accounts.ts';
import { type CliCommand, type Operator, reasonOf } from './operator.ts';
import { readSecret } from './read-secret.ts';

/** What is done to one known account. */
type AccountAct = (operator: Operator, account: Account, act: OperatorAct, words: string[]) => Promise<number>;

export const ACCOUNT_COMMANDS: Readonly<Record<string, CliCommand>> = {
  'account show': async (operator, [email]) => {
    const account = await namedAccount(operator, email);
    return typeof account === 'number' ? account : showAccount(operator, account);
  },
  'account make-admin': onAccount(promote),
  'account status': onAccount(changeStatus),
  'account set-password': onAccount(givePassword),
  'account unlock': unlock,
  'account end-sessions': onAccount(endSessions),
  'account import': importAccounts,
};

function onAccount(work: AccountAct): CliCommand {
  return async (operator, [email, ...words], flags) => {
    const reason = reasonOf(operator, flags);
    if (reason === null) return 2;
    const account = await namedAccount(operator, email);
    if (typeof account === 'number') return account;
    return work(operator, account, { operator: operator.name, reason, now: operator.now() }, words);
  };
}

/** By its e-mail however it is written; where there is none the operator is told, and this is the exit code. */
async function namedAccount(operator: Operator, email: string | undefined): Promise<Account | 1 | 2> {
  if (email === undefined) {
    operator.say('name the e-mail of an account');
    return 2;
  }
  const account = await findAccountByEmail(operator.mongo, normalizeEmail(email));
  if (account !== null) return account;
  operator.say(`no account ${normalizeEmail(email)}`);
  return 1;
}

async function promote(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
  const done = await makeAdmin(operator.mongo, account._id, act);
  switch (done.kind) {
    case 'promoted':
      operator.say(`${account.email} is an ADMIN from its next token on`);
      return 0;
    case 'unchanged':
      operator.say(`${account.email} is an ADMIN already`);
      return 1;
  }
}

async function changeStatus(operator: Operator, account: Account, act: OperatorAct, [word]: string[]): Promise<number> {
  const status = ACCOUNT_STATUSES.find((known) => known === word);
  if (status === undefined) {
    operator.say(`name a status: ${ACCOUNT_STATUSES.join(', ')}`);
    return 2;
  }
  const done = await setStatus(operator.mongo, { accountId: account._id, status }, act);
  switch (done.kind) {
    case 'changed':
      operator.say(`${account.email} is ${status}; ${done.ended} session(s) ended`);
      return 0;
    case 'unchanged':
      operator.say(`${account.email} is ${status} already`);
      return 1;
    case 'deleted':
      operator.say(`${account.email} is DELETED, and that is for good`);
      return 1;
  }
}

async function endSessions(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
  operator.say(`${await signOut(operator.mongo, account._id, act)} session(s) of ${account.email} ended`);
  return 0;
}

/** Guesses at an e-mail are counted whether it has an account or not. */
async function unlock(operator: Operator, [typed]: string[], flags: { reason?: string }): Promise<number> {
  const reason = reasonOf(operator, flags);
  if (reason === null) return 2;
  const email = normalizeEmail(typed ?? '');
  if (!isEmail(email)) {
    operator.say('name an e-mail');
    return 2;
  }
  const account = await findAccountByEmail(operator.mongo, email);
  const act = { operator: operator.name, reason, now: operator.now() };
  const done = await unlockAccount(operator.mongo, { email, accountId: account?._id ?? null }, act);
  operator.say(done ? `failed tries of ${email} are forgotten` : `${email} has no failed tries`);
  return done ? 0 : 1;
}

const NEWEST_EVENTS = 20;

/** An account as JSON, with what an operator is asked about it; of its password only how it is kept. */
async function showAccount({ mongo, now, say }: Operator, account: Account): Promise<number> {
  const [row, sessions, throttle, securityEvents] = await Promise.all([
    accounts(mongo).findOne({ _id: account._id }, { projection: { lastLoginAt: 1 } }),
    liveSessions(mongo, account._id, now()),
    throttles(mongo).findOne({ _id: throttleKey(account.email) }),
    newestSecurityEvents(mongo, account._id, NEWEST_EVENTS),
  ]);
  const shown = {
    ...userView(account),
    phone: account.phone,
    legacyId: account.legacyId,
    passwordScheme: account.password.scheme,
    lastLoginAt: row?.lastLoginAt ?? null,
    sessions: sessions.map(({ _id, createdAt, lastUsedAt, expiresAt, userAgent }) => ({
      id: _id,
      createdAt,
      lastUsedAt,
      expiresAt,
      userAgent,
    })),
    throttle: throttle && {
      tries: throttle.tries,
      failures: throttle.failures,
      blockedUntil: throttle.blockedUntil,
      lastTryAt: throttle.lastTryAt,
    },
    securityEvents: securityEvents.map(({ type, at, sessionId, metadata }) => ({ type, at, sessionId, metadata })),
  };
  say(JSON.stringify(shown, null, 2));
  return 0;
}

/**
 * A password from standard input, under the policy that holds for its owner: an argument would be seen by everybody who lists
 * processes, and be kept in the shell's history.
 */
async function givePassword(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
  const { passwordMinLength: minLength, bcrypt } = operator.settings;
  const password = await readSecret(operator.input, operator.say);
  const faults =
    typeof password === 'string'
      ? passwordFaults(password, { ...account, minLength, isCommon: commonPasswords() })
      : [password.fault];
  if (typeof password !== 'string' || faults.length > 0) {
    for (const fault of faults) operator.say(`the password ${fault}`);
    return 1;
  }
  const hasher = openHasher({ ...bcrypt, concurrency: 1, maxWaiting: 1 });
  const ended = await setPassword(operator.mongo, account, await hasher.hashPassword(password), act);
  operator.say(`${account.email} has a new password; ${ended} session(s) ended, failed tries forgotten`);
  return 0;
}
