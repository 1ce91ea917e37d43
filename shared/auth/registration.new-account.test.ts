import t from 'tap';
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
