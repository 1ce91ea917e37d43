import fc from 'fast-check';
import t from 'tap';
import { accountCodeOf } from './account.ts';

const bytes = fc.uint8Array({ minLength: 5, maxLength: 5 });

t.test('an account code encodes five bytes as eight unambiguous characters', async (t) => {
  t.equal(accountCodeOf(Uint8Array.of(0, 0, 0, 0, 0)), 'ACC-00000000');
  t.equal(accountCodeOf(Uint8Array.of(255, 255, 255, 255, 255)), 'ACC-ZZZZZZZZ');
  t.equal(accountCodeOf(Uint8Array.of(0, 0, 0, 0, 33)), 'ACC-00000011');
  t.equal(accountCodeOf(Uint8Array.of(0, 0, 0, 0, 1, 9)), 'ACC-00000001', 'further bytes are left');
  t.throws(() => accountCodeOf(Uint8Array.of(1, 2, 3, 4)), RangeError);
  fc.assert(fc.property(bytes, (given) => /^ACC-[0-9A-HJKMNP-TV-Z]{8}$/.test(accountCodeOf(given))));
});

t.test('account codes of different bytes differ', async () => {
  fc.assert(
    fc.property(bytes, fc.nat(39), (given, bit) => {
      const other = Uint8Array.from(given);
      other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      return accountCodeOf(given) !== accountCodeOf(other);
    }),
  );
});
