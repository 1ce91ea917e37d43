import { findAccountByEmail } from '#infra/mongo/auth/accounts.ts';
import { makeAdmin, setStatus, signOut, unlockAccount } from '#infra/mongo/auth/operator.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { ACCOUNT_STATUSES, type Account } from '#shared/auth/account.ts';
import { isEmail, normalizeEmail } from '#shared/auth/registration.ts';
import { givePassword } from './account-password.ts';
import { showAccount } from './account-show.ts';
import { importAccounts } from './import-accounts.ts';
import type { CliCommand, Operator } from './operator.ts';
import { reasonOf } from './reason.ts';

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
