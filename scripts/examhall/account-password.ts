import { setPassword } from '#infra/mongo/auth/operator.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import type { Account } from '#shared/auth/account.ts';
import { passwordFaults } from '#shared/auth/password-policy.ts';
import type { Operator } from './operator.ts';
import { readSecret } from './read-secret.ts';

/**
 * A password from standard input, under the policy that holds for its owner: an argument would be seen by everybody who lists
 * processes, and be kept in the shell's history.
 */
export async function givePassword(operator: Operator, account: Account, act: OperatorAct): Promise<number> {
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
