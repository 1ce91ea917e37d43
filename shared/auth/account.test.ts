import fc from 'fast-check';
import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { type Account, accountCodeOf, userView } from './account.ts';
import { deviceClaims, isDeviceOf } from './device.ts';
import { accountBatchBody, accountNotice, accountNoticeOrder } from './notices.ts';
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
