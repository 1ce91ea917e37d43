import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { composed } from '#shared/kernel/text.ts';
import { MAX_SENT_CHARACTERS, type PasswordContext, passwordFaults } from './password-policy.ts';
import { isDateAlone, isOneCharacter, isRun } from './predictable-password.ts';

const CONTEXT: PasswordContext = {
  email: 'thao.nguyen@school.vn',
  fullName: 'Nguyễn Thu Thảo',
  minLength: 8,
  isCommon: (text) => text === 'password1',
};
const faultsOf = (password: string, context: Partial<PasswordContext> = {}) =>
  passwordFaults(password, { ...CONTEXT, ...context });

t.test('the password policy returns every fault at once', async (t) => {
  t.strictSame(faultsOf('a strange horse'), []);
  t.match(faultsOf('short'), [/at least 8/]);
  t.match(faultsOf('a'.repeat(129)), [/at most 128/]);
  t.match(faultsOf('PassWord1'), [/commonly used/]);
  t.match(faultsOf('Thao.Nguyen'), [/e-mail/]);
  t.match(faultsOf('THAO.NGUYEN@school.vn'), [/e-mail/]);
  t.match(faultsOf('nguyễn thu THẢO'.normalize('NFD')), [/name/]);
  t.match(faultsOf('a\0b', { isCommon: () => true }), [/at least 8/, /control characters/, /commonly used/]);
  t.match(faultsOf('an', { email: 'an@school.vn', fullName: 'An' }), [/at least/, /e-mail/, /name/]);
  t.match(faultsOf('fifteen letters', { minLength: 16 }), [/at least 16/]);
  t.strictSame(faultsOf(`mật khẩu${'\u0301'.repeat(31)}`), ['must not contain more than 30 combining marks in a row']);
  for (const date of ['20102008', '20-10-2008', '2008/10/20'])
    t.strictSame(faultsOf(date), ['must not be a date alone']);
  t.match(faultsOf('AAaaAAaa'), [/repeated/]);
  t.match(faultsOf('abcdefgh', { isCommon: () => true }), [/commonly used/, /a run of characters/]);
  t.strictSame(faultsOf('sinh 20-10-2008'), [], 'a date beside other text');
});

t.test('every schema with a password limits it as the console does', async (t) => {
  const schemas = loadSchemas();
  const fields = schemas.ids.flatMap((id) => Object.entries(schemas.document(id).properties ?? {}));
  const passwords = fields.filter(([name, { type }]) => /password$/i.test(name) && type === 'string');
  t.strictSame(
    passwords.map(([name, { maxLength }]) => `${name} ${maxLength}`).sort(),
    ['currentPassword', 'newPassword', 'password', 'password'].map((name) => `${name} ${MAX_SENT_CHARACTERS}`),
  );
});

t.test('the password length counts code points of the NFC form', async (t) => {
  t.strictSame(faultsOf('🐘🐎'.repeat(4)), []);
  t.match(faultsOf('🐘🐎🐘🐎🐘🐎🐘'), [/at least 8/], 'not UTF-16 units');
  t.strictSame(faultsOf('🐘🐎'.repeat(64)), []);
  t.match(faultsOf(`${'🐘🐎'.repeat(64)}🐘`), [/at most 128/]);
  t.match(faultsOf('ễễễễ'.normalize('NFD')), [/at least 8/], 'twelve code points as typed, four letters');
});

t.test('a password fails if its length is out of bounds or it has a control character or lone surrogate', async () => {
  const letters = fc.string({ unit: 'grapheme', minLength: 8, maxLength: 200 }).map(composed);
  fc.assert(
    fc.property(letters, fc.integer({ min: 8, max: 64 }), (text, minLength) => {
      const length = [...text].length;
      const faults = faultsOf(text, { minLength, isCommon: () => false });
      const lengthFaults = faults.filter((fault) => /at (least|most)/.test(fault));
      return lengthFaults.length === (length < minLength || length > 128 ? 1 : 0);
    }),
  );
  const control = fc.constantFrom('\0', '\n', '\u007f', '\u0085', '\u009f', '\ud83d', '\udc18');
  fc.assert(
    fc.property(fc.string(), control, fc.string(), (before, bad, after) =>
      faultsOf(before + bad + after).some((fault) => fault.includes('control')),
    ),
  );
});

t.test('the NFC and NFD forms of a password have the same faults', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const [composed, apart] = [faultsOf(text.normalize('NFC')), faultsOf(text.normalize('NFD'))];
      return JSON.stringify(composed) === JSON.stringify(apart);
    }),
  );
});

t.test('a blank name or e-mail forbids no password', async (t) => {
  t.strictSame(passwordFaults('', { ...CONTEXT, email: '', fullName: ' ', minLength: 0 }), []);
  t.strictSame(faultsOf('school.vn'), [], 'a password may equal the domain of the e-mail');
});

t.test('a date alone is recognized in the usual orders and with the usual separators', async (t) => {
  for (const text of ['20102008', '20-10-2008', '20/10/2008', '20.10.2008', '2008-10-20', '20081020', '10202008']) {
    t.equal(isDateAlone(text), true, text);
  }
  for (const text of ['20 10 2008', ' 20102008 ', '2-9-2010', '20-10-08', '201008', '29022008', '31_12_1999']) {
    t.equal(isDateAlone(text), true, text);
  }
  for (const text of ['20132008a', '31-04-2008', '99999999', '20-10-2108', '00102008', '20102008!', '0912345678', '']) {
    t.equal(isDateAlone(text), false, text);
  }
  for (const text of ['20-10-2008-1', 'an 20-10-2008', '20--', '----', '20-ab-2008']) {
    t.equal(isDateAlone(text), false, text);
  }
});

t.test('every day from 1900 to 2099 is a date in every form', async () => {
  const day = fc.date({ min: new Date('1900-01-01'), max: new Date('2099-12-31'), noInvalidDate: true });
  fc.assert(
    fc.property(day, fc.constantFrom('', '-', '/', '.', ' '), (date, separator) => {
      const [year = '', month = '', dayOfMonth = ''] = date.toISOString().slice(0, 10).split('-');
      const forms = [
        [dayOfMonth, month, year],
        [month, dayOfMonth, year],
        [year, month, dayOfMonth],
        [dayOfMonth, month, year.slice(2)],
      ];
      return forms.every((parts) => isDateAlone(parts.join(separator)));
    }),
  );
});

t.test('one repeated character and a run of characters are recognized', async (t) => {
  for (const text of ['aaaaaaaa', '11111111', '🐘🐘🐘🐘🐘🐘🐘🐘', 'ễễễễễễễễ'])
    t.equal(isOneCharacter(text), true, text);
  for (const text of ['', 'a', 'aaaaaaab', 'abababab']) t.equal(isOneCharacter(text), false, text);
  for (const text of ['12345678', '87654321', 'abcdefgh', 'hgfedcba', '1234567890', '0987654321', '34567890']) {
    t.equal(isRun(text), true, text);
  }
  for (const text of ['', '12', '12345679', 'abcdabcd', 'aaaaaaaa', '12344321', '89:;<=>?'.slice(0, 0)]) {
    t.equal(isRun(text), false, text);
  }
});

t.test('a text that ends differently than its run goes on is no run', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 97, max: 110 }), fc.integer({ min: 8, max: 12 }), (from, length) => {
      const run = String.fromCodePoint(...Array.from({ length }, (_, index) => from + index));
      return isRun(run) && isRun([...run].reverse().join('')) && !isRun(`${run}-`) && !isOneCharacter(run);
    }),
  );
});
