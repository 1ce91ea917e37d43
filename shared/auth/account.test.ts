import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { composed } from '#shared/kernel/text.ts';
import { DAY } from '#shared/kernel/time.ts';
import { type Account, accountCodeOf, userView } from './account.ts';
import { deviceClaims, isDeviceOf } from './device.ts';
import { accountBatchBody, accountNotice, accountNoticeOrder } from './notices.ts';
import { MAX_SENT_CHARACTERS, type PasswordContext, passwordFaults } from './password-policy.ts';
import { isDateAlone, isOneCharacter, isRun } from './predictable-password.ts';
import { newAccount } from './registration.ts';

t.test('a new account sets every field and flags a missing phone and legacy id', async (t) => {
  const now = new Date('2026-11-21T08:00:00Z');
  const registration = { email: 'an@school.vn', phone: null, fullName: 'An', role: 'TEACHER' } as const;
  const password = { scheme: 'bcrypt', hash: 'h' } as const;
  const organization = { id: 'local', name: 'Local' };
  const making = { id: 'a1', accountCode: 'ACC-00000000', legacyId: null, password, organization, now };
  t.strictSame(newAccount(registration, making), {
    _id: 'a1',
    accountCode: 'ACC-00000000',
    email: 'an@school.vn',
    phone: null,
    hasPhone: false,
    legacyId: null,
    hasLegacyId: false,
    fullName: 'An',
    role: 'TEACHER',
    status: 'ACTIVE',
    memberships: [{ organizationId: 'local', organizationName: 'Local', role: 'TEACHER', status: 'ACTIVE' }],
    defaultOrganizationId: 'local',
    password,
    createdAt: now,
    updatedAt: now,
  });
  t.match(newAccount({ ...registration, phone: '+84901234567' }, { ...making, legacyId: 'L-1' }), {
    phone: '+84901234567',
    hasPhone: true,
    legacyId: 'L-1',
    hasLegacyId: true,
  });
});

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

t.test('the user view contains the named account fields and no other stored field', async (t) => {
  const when = new Date('2026-11-21T08:00:00.000Z');
  const membership = { organizationId: 'local', organizationName: 'Local', role: 'STUDENT', status: 'ACTIVE' } as const;
  const account: Account = {
    _id: 'id',
    accountCode: 'ACC-00000000',
    email: 'a@b.vn',
    phone: '+84912345678',
    hasPhone: true,
    legacyId: 'x',
    hasLegacyId: true,
    fullName: 'An',
    role: 'STUDENT',
    status: 'ACTIVE',
    defaultOrganizationId: 'local',
    memberships: [Object.assign({ note: 'internal' }, membership)],
    password: { scheme: 'bcrypt', hash: 'secret' },
    createdAt: when,
    updatedAt: when,
  };
  t.strictSame(userView(Object.assign(account, { later: 'a field of a newer process' })), {
    id: 'id',
    accountCode: 'ACC-00000000',
    email: 'a@b.vn',
    fullName: 'An',
    role: 'STUDENT',
    status: 'ACTIVE',
    createdAt: '2026-11-21T08:00:00.000Z',
    updatedAt: '2026-11-21T08:00:00.000Z',
    memberships: [membership],
    defaultOrganizationId: 'local',
  });
});

const NOW = Date.UTC(2026, 8, 7, 1, 0, 0, 750);
const sitting = { sessionId: 's-1', now: NOW };

t.test('a device token is one of its account for 400 days', async (t) => {
  const claims = deviceClaims({ _id: 'an' }, sitting);
  const iat = Math.floor(NOW / 1_000);
  t.strictSame(claims, { sub: 'an', type: 'device', sid: 's-1', epoch: '', iat, exp: iat + (400 * DAY) / 1_000 });
  t.equal(isDeviceOf({ _id: 'an' }, claims), true);
  t.equal(isDeviceOf({ _id: 'binh' }, claims), false);
});

t.test('a new epoch of the account ends the tokens before it, and no other', async (t) => {
  const [before, after] = [{ _id: 'an' }, { _id: 'an', deviceEpoch: 'e-1' }];
  t.equal(isDeviceOf(after, deviceClaims(before, sitting)), false);
  t.equal(isDeviceOf(after, deviceClaims(after, sitting)), true);
  t.equal(isDeviceOf({ ...after, deviceEpoch: 'e-2' }, deviceClaims(after, sitting)), false);
});

const EVENT = { _id: 'event-1', accountId: 'account-1', at: new Date('2026-11-22T18:05:09.000Z') };

t.test('the owner is notified of a changed or set password and of a reused token, and of no other event', async (t) => {
  for (const type of ['PASSWORD_CHANGED', 'PASSWORD_SET', 'REFRESH_REUSE']) {
    t.match(accountNotice({ ...EVENT, type }), { eventId: 'event-1', accountId: 'account-1', event: type });
  }
  for (const type of ['STATUS_CHANGED', 'ROLE_CHANGED', 'LOGIN_LOCKED', 'ADDRESS_SLOWED', 'NEW_ADDRESS']) {
    t.equal(accountNotice({ ...EVENT, type }), null);
  }
  t.equal(accountNotice({ ...EVENT, accountId: null, type: 'PASSWORD_SET' }), null);
});

t.test('a notice goes to the account under the id of its event, with the time in Vietnam', async (t) => {
  const notice = { eventId: 'event-1', accountId: 'account-1', event: 'PASSWORD_CHANGED', at: EVENT.at } as const;
  t.match(accountNoticeOrder(notice), { queue: 'accountnotices', key: 'event-1', subject: 'account-1' });
  const body = accountBatchBody(notice);
  t.match(body, {
    notifications: [{ userId: 'account-1', type: 'ACCOUNT_SECURITY', title: 'Mật khẩu đã được thay đổi' }],
    event: {
      sourceService: 'auth-service',
      sourceEventId: 'event-1',
      type: 'ACCOUNT_SECURITY',
      preferenceType: 'ACCOUNT_SECURITY',
      targetUserIds: ['account-1'],
      payload: { event: 'PASSWORD_CHANGED', at: '2026-11-22T18:05:09.000Z' },
    },
  });
  t.match(body.notifications[0]?.content, 'lúc 01:05 ngày 23/11/2026 (giờ Việt Nam)');
});

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
