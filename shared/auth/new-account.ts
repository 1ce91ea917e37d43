import type { Account, StoredPassword } from './account.ts';
import type { Registration } from './registration.ts';

/** Where everybody belongs who registers or is imported. */
export interface DefaultOrganization {
  id: string;
  name: string;
}

/** What only its maker knows of an account beside what was asked for. */
export interface Making {
  id: string;
  accountCode: string;
  legacyId: string | null;
  password: StoredPassword;
  organization: DefaultOrganization;
  now: Date;
}

/** An ACTIVE account, a member of the default organization in the role that was asked for. */
export function newAccount(registration: Registration, making: Making): Account {
  const { id, accountCode, legacyId, password, organization, now } = making;
  const { email, phone, fullName, role } = registration;
  return {
    _id: id,
    accountCode,
    email,
    phone,
    hasPhone: phone !== null,
    legacyId,
    hasLegacyId: legacyId !== null,
    fullName,
    role,
    status: 'ACTIVE',
    memberships: [{ organizationId: organization.id, organizationName: organization.name, role, status: 'ACTIVE' }],
    defaultOrganizationId: organization.id,
    password,
    createdAt: now,
    updatedAt: now,
  };
}
