import t from 'tap';
import { type Account, userView } from './account.ts';

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
