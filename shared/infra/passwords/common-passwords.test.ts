import t from 'tap';
import { commonPasswords } from './common-passwords.ts';

t.test('recognizes common passwords and no others', async (t) => {
  const isCommon = commonPasswords();
  for (const text of ['password', '12345678', 'qwertyuiop', 'iloveyou', 'password1'])
    t.equal(isCommon(text), true, text);
  for (const text of ['', 'a strange horse', 'constructor', '__proto__']) t.equal(isCommon(text), false, text);
});

t.test('recognizes a short group of characters that is repeated', async (t) => {
  const isCommon = commonPasswords();
  for (const text of ['123123123', 'abcabcabc', 'asdasdasd', '12341234', '1212121212', 'hahahaha'])
    t.equal(isCommon(text), true, text);
  for (const text of ['a1b2c-a1b2c', 'khoai khoai', '12341235', 'xyxyxyxz', '🐘🐎🐘🐎🐘🐎🐘🐎', 'ăâăâăâăâ'])
    t.equal(isCommon(text), false, text);
});

t.test('recognizes common Vietnamese words, with tone marks, blanks and a number', async (t) => {
  const isCommon = commonPasswords();
  for (const text of ['matkhau123', 'anhyeuem123', 'vietnam123', 'hocsinh2026', 'student123', 'truonghoc1'])
    t.equal(isCommon(text), true, text);
  for (const text of [
    'mật khẩu 123',
    'mật khẩu'.normalize('NFD'),
    '123matkhau',
    'đăng nhập 2026',
    'anh yêu em',
    'giaovien',
  ])
    t.equal(isCommon(text), true, text);
  for (const text of [
    'sông hương 1802',
    'matkhau-cua-an',
    'hocsinh lop 10',
    'student1234567',
    '7654398',
    'đường về quê',
  ])
    t.equal(isCommon(text), false, text);
});
