import { findAccountByEmail } from '#infra/mongo/auth/accounts.ts';
import { accounts, throttles } from '#infra/mongo/auth/collections.ts';
import { makeAdmin, setPassword, setStatus, signOut, unlockAccount } from '#infra/mongo/auth/operator.ts';
import { liveSessions, newestSecurityEvents } from '#infra/mongo/auth/sessions.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { type OperatorAct, writeAudit } from '#infra/mongo/operator-audit.ts';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import { ACCOUNT_STATUSES, type Account, userView } from '#shared/auth/account.ts';
import { passwordFaults } from '#shared/auth/password-policy.ts';
import { isEmail, normalizeEmail } from '#shared/auth/registration.ts';
import { sessionEndOf } from '#shared/auth/session.ts';
import { importAccounts } from './import-accounts.ts';
import {
  actFor,
  type CliCommands,
  type CommandWork,
  type Flags,
  type Operator,
  readingActFor,
  readSecret,
} from './operator.ts';
import { counted, EXIT, print, Refused, WrongUsage } from './output.ts';

/** An audited action on one existing account. Returns the exit code. */
type AccountAct = (operator: Operator, account: Account, act: OperatorAct, words: string[]) => Promise<number>;

const EMAIL = { '<email>': 'e-mail address of the account' };

export const ACCOUNT_COMMANDS: CliCommands = {
  'account show': {
    summary: 'print an account with its live sessions, failed logins and security events; audited',
    args: EMAIL,
    options: ['reason', 'operator', 'json'],
    examples: ['account show an@truong.example --reason "asked by phone"'],
    run: showAccount,
  },
  'account make-admin': {
    summary: 'grant ADMIN, which registration never grants',
    args: EMAIL,
    options: ['reason', 'operator'],
    examples: ['account make-admin an@truong.example --reason "first admin"'],
    run: onAccount(promote),
  },
  'account status': {
    summary: 'change the status of an account',
    details: 'SUSPENDED refuses requests. DELETED ends the sessions and cannot be undone.',
    args: { ...EMAIL, '<status>': ACCOUNT_STATUSES.join(', ') },
    options: ['reason', 'operator'],
    examples: ['account status an@truong.example SUSPENDED --reason "stolen telephone"'],
    run: onAccount(changeStatus),
  },
  'account set-password': {
    summary: 'set a password: prompts twice without echo, or reads a file',
    details: 'It ends the sessions and device tokens of the account and clears its failed login attempts.',
    args: EMAIL,
    options: ['reason', 'operator'],
    examples: [
      'account set-password an@truong.example --reason "forgotten"',
      'account set-password an@truong.example --reason "forgotten" < password.txt',
    ],
    run: onAccount(givePassword),
  },
  'account unlock': {
    summary: 'clear failed login attempts and end device tokens; the e-mail needs no account',
    args: EMAIL,
    options: ['reason', 'operator'],
    examples: ['account unlock an@truong.example --reason "wrong keyboard layout"'],
    run: unlock,
  },
  'account end-sessions': {
    summary: 'end all sessions of an account',
    args: EMAIL,
    options: ['reason', 'operator'],
    examples: ['account end-sessions an@truong.example --reason "stolen telephone"'],
    run: onAccount(endSessions),
  },
  'account import': {
    summary: 'import accounts with bcrypt hashes from another system',
    details: `One account per line: email, fullName, role, passwordHash (plain bcrypt), phone?, legacyId?. Without --yes it only
checks the file. Role ADMIN needs --allow-admin.`,
    args: { '<file>': 'JSON lines' },
    options: ['reason', 'operator', 'allow-admin', 'yes'],
    examples: ['account import accounts.jsonl --reason "from the old system"'],
    run: importAccounts,
  },
};

function onAccount(work: AccountAct): CommandWork {
  return async (operator, [email, ...words], flags) => {
    const act = actFor(operator, flags);
    return work(operator, await namedAccount(operator, email), act, words);
  };
}

/** Finds an account by its e-mail, in any case and with blanks around it. @throws Refused if no account has it */
async function namedAccount({ mongo }: Operator, email = ''): Promise<Account> {
  const account = await findAccountByEmail(mongo, normalizeEmail(email));
  if (account === null) throw new Refused(`no account with e-mail ${normalizeEmail(email)}`);
  return account;
}

async function promote({ mongo, say }: Operator, account: Account, act: OperatorAct): Promise<number> {
  const done = await makeAdmin(mongo, account._id, act);
  if (done.kind === 'unchanged') throw new Refused(`${account.email} is already an ADMIN`);
  say(`granted ADMIN to ${account.email}; effective with its next access token`);
  return EXIT.done;
}

async function changeStatus(operator: Operator, account: Account, act: OperatorAct, [word]: string[]): Promise<number> {
  const status = ACCOUNT_STATUSES.find((known) => known === word);
  if (status === undefined) throw new WrongUsage(`STATUS must be one of ${ACCOUNT_STATUSES.join(', ')}`);
  const done = await setStatus(operator.mongo, { accountId: account._id, status }, act);
  switch (done.kind) {
    case 'changed':
      if (status !== 'ACTIVE') await operator.endStreams(account._id);
      operator.say(`${account.email} is now ${status}; ended ${counted(done.ended, 'session')}`);
      return EXIT.done;
    case 'unchanged':
      throw new Refused(`${account.email} is already ${status}`);
    case 'deleted':
      throw new Refused(`${account.email} is deleted; deletion cannot be undone`);
  }
}

async function endSessions(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
  const ended = await signOut(operator.mongo, account._id, act);
  await operator.endStreams(account._id);
  operator.say(`ended ${counted(ended, 'session')} of ${account.email}`);
  return EXIT.done;
}

/** Clears the failed login attempts of an e-mail, which are counted without an account too, and ends device tokens. */
async function unlock(operator: Operator, [typed = '']: string[], flags: Flags): Promise<number> {
  const act = actFor(operator, flags);
  const email = normalizeEmail(typed);
  if (!isEmail(email)) throw new WrongUsage('the argument must be an e-mail address');
  const account = await findAccountByEmail(operator.mongo, email);
  const done = await unlockAccount(operator.mongo, { email, accountId: account?._id ?? null }, act);
  if (!done) throw new Refused(`${email} has no account and no failed login attempts`);
  operator.say(`cleared the failed login attempts of ${email}${account === null ? '' : '; ended its device tokens'}`);
  return EXIT.done;
}

const NEWEST_EVENTS = 20;

/**
 * Prints an account as JSON, with its live sessions, login throttle and newest security events. Of its password, only the scheme. The
 * read is in the audit before its first line is printed.
 */
async function showAccount(operator: Operator, [email]: string[], flags: Flags): Promise<number> {
  const { mongo, now, settings } = operator;
  const account = await namedAccount(operator, email);
  const { sessionMaxMs: maxAgeMs } = settings;
  const line = { action: 'account.show', subject: account._id, detail: {} } as const;
  await writeAudit(mongo, readingActFor(operator, flags), line);
  const [row, sessions, throttle, securityEvents] = await Promise.all([
    accounts(mongo).findOne({ _id: account._id }, { projection: { lastLoginAt: 1 } }),
    liveSessions(mongo, account._id, { now: now(), maxAgeMs }),
    throttles(mongo).findOne({ _id: throttleKey(account.email) }),
    newestSecurityEvents(mongo, account._id, NEWEST_EVENTS),
  ]);
  const shown = {
    ...userView(account),
    phone: account.phone,
    legacyId: account.legacyId,
    passwordScheme: account.password.scheme,
    lastLoginAt: row?.lastLoginAt ?? null,
    sessions: sessions.map((session) => ({
      id: session._id,
      createdAt: session.createdAt,
      lastUsedAt: session.lastUsedAt,
      expiresAt: sessionEndOf(session, maxAgeMs),
      userAgent: session.userAgent,
    })),
    throttle: throttle && {
      tries: throttle.tries,
      failures: throttle.failures,
      blockedUntil: throttle.blockedUntil,
      lastTryAt: throttle.lastTryAt,
    },
    securityEvents: securityEvents.map(({ type, at, sessionId, metadata }) => ({ type, at, sessionId, metadata })),
  };
  return print(operator, { json: true }, shown, () => []);
}

/**
 * Sets a password that is read from standard input and meets the policy of its owner. An argument would be visible in the list of
 * processes and stored in the shell's history.
 */
async function givePassword(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
  const { passwordMinLength: minLength, bcrypt } = operator.settings;
  const password = await readSecret(operator.input, operator.note);
  if (typeof password !== 'string') throw new Refused(password.fault);
  const faults = passwordFaults(password, { ...account, minLength, isCommon: await commonPasswords() });
  for (const fault of faults) operator.fail(`the password ${fault}`);
  if (faults.length > 0) return EXIT.failed;
  const hasher = openHasher({ ...bcrypt, concurrency: 1 });
  const ended = await setPassword(operator.mongo, account, await hasher.hashPassword(password), act);
  await operator.endStreams(account._id);
  operator.say(
    `set the password of ${account.email}; ended ${counted(ended, 'session')}, cleared its failed login attempts`,
  );
  return EXIT.done;
}
