import fc from 'fast-check';
import t from 'tap';
import { isEmail, normalizeEmail } from './registration.ts';

t.test('e-mails that differ only in ASCII case or surrounding blanks normalize to one address', async () => {
  const letters = fc.array(fc.constantFrom('a', 'B', 'z', 'Q', '7', '.', '@', '+'), { maxLength: 20 });
  const blanks = fc.constantFrom('', ' ', '\t', '\n', '\u00a0', '  ');
  fc.assert(
    fc.property(letters, blanks, blanks, (parts, before, after) => {
      const text = parts.join('');
      const expected = text.toLowerCase();
      return [text, text.toUpperCase(), expected].every((form) => normalizeEmail(before + form + after) === expected);
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => normalizeEmail(normalizeEmail(text)) === normalizeEmail(text)),
  );
});

t.test('normalizing an e-mail never turns a letter that resembles ASCII into ASCII', async (t) => {
  t.equal(normalizeEmail('\u212aim@school.vn'), '\u212aim@school.vn', 'the Kelvin sign');
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const isPlain = !/\P{ASCII}/u.test(text.trim());
      return isPlain || !isEmail(normalizeEmail(`${text}@school.vn`));
    }),
  );
});

t.test('an e-mail consists of dotted atoms, one @ and a domain of two or more labels', async (t) => {
  for (const good of [
    'an@school.edu.vn',
    'an.nguyen+exam@school.vn',
    "o'hara@a-b.vn",
    'a@b.c',
    'an@xn--bcher-kva.example',
    '1@2.vn',
    `${'a'.repeat(64)}@school.vn`,
    `a@${'b'.repeat(63)}.vn`,
  ]) {
    t.ok(isEmail(good), good);
  }
  for (const bad of [
    '',
    '@',
    'an',
    'an@',
    '@school.vn',
    'an@school',
    'an@@school.vn',
    'an@b@school.vn',
    '.an@school.vn',
    'an.@school.vn',
    'a..n@school.vn',
    'a n@school.vn',
    '"an"@school.vn',
    'an@-school.vn',
    'an@school-.vn',
    'an@school..vn',
    'an@.vn',
    'an@school.vn.',
    'an@192.168.0.1',
    'an@[192.168.0.1]',
    'an@school.vn\0',
    'an@school.vn\nbcc: b@school.vn',
    'an,b@school.vn',
    'Thảo@school.vn',
    'an@trường.vn',
    `${'a'.repeat(65)}@school.vn`,
    `a@${'b'.repeat(64)}.vn`,
  ]) {
    t.notOk(isEmail(bad), JSON.stringify(bad));
  }
});

t.test('an e-mail may have 254 characters but not 255', async (t) => {
  const longest = `${'a'.repeat(64)}@${`${'b'.repeat(60)}.`.repeat(3)}ccc.vn`;
  t.equal(longest.length, 254);
  t.ok(isEmail(longest));
  t.notOk(isEmail(longest.replace('@', '@x')));
});
