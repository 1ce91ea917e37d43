import t from 'tap';
import { commonPasswords } from './common-passwords.ts';

t.test('recognizes common passwords and no others', async (t) => {
  const isCommon = commonPasswords();
  for (const text of ['password', '12345678', 'qwertyuiop', 'iloveyou', 'password1'])
    t.equal(isCommon(text), true, text);
  for (const text of ['', 'a strange horse', 'constructor', '__proto__']) t.equal(isCommon(text), false, text);
});
