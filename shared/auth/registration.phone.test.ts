import fc from 'fast-check';
import t from 'tap';
import { normalizePhone } from './registration.ts';

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
