import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { isEmail, normalizeEmail, normalizePhone, readRegistration, registrationFaults } from './registration.ts';

const ROLES = ['STUDENT', 'TEACHER'] as const;
const body = { email: ' An.Nguyen@Example.VN ', fullName: ' Nguyễn Văn An ' };

t.test('reading a registration returns its normalized fields', async (t) => {
  t.strictSame(readRegistration(body, ROLES), {
    email: 'an.nguyen@example.vn',
    fullName: 'Nguyễn Văn An',
    phone: null,
    role: 'STUDENT',
  });
  t.match(readRegistration({ ...body, phone: ' 0901 234 567 ', role: 'TEACHER' }, ROLES), {
    phone: '+84901234567',
    role: 'TEACHER',
  });
  for (const phone of [null, '', '  ']) t.match(readRegistration({ ...body, phone }, ROLES), { phone: null });
});

t.test('reading a registration returns every fault at once', async (t) => {
  const faulty = { email: 'nobody', fullName: ' ', phone: 'call me', role: 'ADMIN' };
  t.match(readRegistration(faulty, ROLES), {
    rejected: 'VALIDATION_FAILED',
    details: [{ path: '/email' }, { path: '/fullName' }, { path: '/phone' }, { path: '/role' }],
  });
  for (const role of ['ADMIN', 'PARENT', 'student', '']) {
    t.match(readRegistration({ ...body, role }, ROLES), { details: [{ path: '/role' }] }, role);
  }
  for (const fullName of ['', 'x'.repeat(201), 'a\u0000b', '\ud800', `a${'\u0301'.repeat(31)}`]) {
    t.match(readRegistration({ ...body, fullName }, ROLES), { details: [{ path: '/fullName' }] });
  }
  t.match(readRegistration({ ...body, fullName: 'x'.repeat(200) }, ROLES), { role: 'STUDENT' });
});

// Before: `Quản trị viên` with a zero width space behind it was accepted, and was mistaken for the office.
t.test('a name is one line that shows its letters in the order that it has', async (t) => {
  const nameOf = (fullName: string) => {
    const read = readRegistration({ ...body, fullName }, ROLES);
    return isRejection(read) ? null : read.fullName;
  };
  for (const hiding of [
    '\u200b',
    '\u202e',
    '\u2066',
    '\u00ad',
    '\u{e0041}',
    '\u2028',
    '\u2029',
    '\n',
    '\u0085',
    '\0',
  ]) {
    t.equal(nameOf(`Quản${hiding} trị viên`), null, `U+${hiding.codePointAt(0)?.toString(16)}`);
  }
  for (const trailing of ['\u200b', '\u202e', '\u2060']) t.equal(nameOf(`Quản trị viên${trailing}`), null);
  for (const blank of [' ', '\n', '\u00a0', '\ufeff', '\u200d', '\u3164']) t.equal(nameOf(`${blank}An${blank}`), 'An');
  for (const nothing of ['\u200d', '\u3164 \u200c']) t.equal(nameOf(nothing), null);
  t.equal(nameOf('می\u200cخواهم'), 'می\u200cخواهم', 'a joiner of another script stays');
});

t.test('a registration that failed its schema also gets the faults of its well-formed fields', async (t) => {
  const paths = (body: unknown, ...known: string[]) =>
    registrationFaults(
      body,
      known.map((path) => ({ path, message: 'is bad' })),
      ROLES,
    ).map(({ path }) => path);
  t.strictSame(paths({ email: 'nobody', fullName: 7, phone: 'x', role: 'ADMIN' }, '/fullName'), [
    '/email',
    '/phone',
    '/role',
  ]);
  t.strictSame(paths({ email: 'nobody', phone: null, role: null }, '/fullName'), ['/email']);
  t.strictSame(paths({ email: 'x'.repeat(2_000) }, '/email'), [], 'no fault is reported twice');
  t.strictSame(paths(body, '/extra'), []);
  for (const none of [null, 'x', 5, [], undefined]) t.strictSame(paths(none, ''), []);
});

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

const phoneOf = (text: string | null | undefined) => {
  const typed = normalizePhone(text);
  return typed.kind === 'number' ? typed.phone : undefined;
};

t.test('every notation of a phone number normalizes to the same E.164 number', async (t) => {
  for (const text of [
    '0912345678',
    '+84912345678',
    ' 0912 345 678 ',
    '(091) 234-5678',
    '+84 (0) 91 234 5678',
    '0084912345678',
    '091.234.5678',
    '\u200e0912345678\u200f',
    '0912\u2060345\u00ad678',
    'tel:+84912345678',
    'TEL: 0912 345 678',
    '(+84) 912345678',
    '(+84)912 345 678',
    '\u202d(+84) 912345678\u202c',
  ]) {
    t.equal(phoneOf(text), '+84912345678', text);
  }
  t.equal(phoneOf('+1 202-555-0123'), '+12025550123');
  t.equal(phoneOf('024 3825 1234'), '+842438251234', 'a fixed line');
});

t.test('a blank phone is missing, a malformed phone is invalid', async (t) => {
  for (const nothing of [undefined, null, '', ' ', '\t\n', '\u00a0', '\u200b', '\u202d\u202c'])
    t.strictSame(normalizePhone(nothing), { kind: 'none' });
  for (const wrong of [
    '0',
    '12',
    'phone',
    '091234567890123456',
    '000448980',
    '+',
    '+84',
    '+999912345678',
    'call 0912345678',
    '0912345678 or 0987654321',
    '0912345678 ext. 12',
    '0912345678;ext=12',
    `0912345678${' '.repeat(80)}1`,
  ]) {
    t.strictSame(normalizePhone(wrong), { kind: 'invalid' }, wrong);
  }
});

t.test('a normalized phone is E.164 and normalizes to itself, for any input', async () => {
  const typed = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(fc.constantFrom(...'+0123456789 -.()'.split('')), { maxLength: 24 }).map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(typed, (text) => {
      const phone = phoneOf(text);
      if (phone === undefined) return true;
      return /^\+[1-9]\d{4,14}$/.test(phone) && phoneOf(phone) === phone;
    }),
    { numRuns: 2_000 },
  );
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 9_999_999 }), (n) => {
      const rest = String(n).padStart(7, '0');
      return phoneOf(`091${rest}`) === `+8491${rest}`;
    }),
  );
});
