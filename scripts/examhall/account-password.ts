import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Account } from '../../shared/auth/account.ts';
import { passwordFaults } from '../../shared/auth/password-policy.ts';
import { openHasher } from '../../shared/infra/bcrypt/hasher.ts';
import { setPassword } from '../../shared/infra/mongo/auth/set-password.ts';
import type { OperatorAct } from '../../shared/infra/mongo/operator-audit.ts';
import { commonPasswords } from '../../shared/infra/passwords/common-passwords.ts';
import type { Operator } from './operator.ts';

/**
 * A password from standard input, under the policy that holds for its owner: an argument would be seen by everybody who lists
 * processes, and be kept in the shell's history.
 */
export async function givePassword(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
  const { passwordMinLength: minLength, bcrypt } = operator.settings;
  const password = await readLine(operator.input);
  const faults =
    password === null
      ? ['must be one line of UTF-8']
      : passwordFaults(password, { ...account, minLength, isCommon: commonPasswords() });
  if (password === null || faults.length > 0) {
    for (const fault of faults) operator.say(`the password ${fault}`);
    return 1;
  }
  const hasher = openHasher({ ...bcrypt, concurrency: 1, maxWaiting: 1 });
  const ended = await setPassword(operator.mongo, account, await hasher.hashPassword(password), act);
  operator.say(`${account.email} has a new password; ${ended} session(s) ended, failed tries forgotten`);
  return 0;
}

/** All of the input but the line end that an editor or echo adds; null when it is no text of one line. */
async function readLine(input: Readable): Promise<string | null> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await buffer(input)).replace(/\r?\n$/, '');
    return /[\r\n]/.test(text) ? null : text;
  } catch {
    return null;
  }
}
