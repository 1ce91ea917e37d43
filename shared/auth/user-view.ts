import type { Account, AccountStatus, Membership, Role } from './account.ts';

/** An account as its owner sees it. */
export interface UserView {
  id: string;
  accountCode: string;
  email: string;
  fullName: string;
  role: Role;
  status: AccountStatus;
  /** ISO 8601, UTC, milliseconds; `updatedAt` too. */
  createdAt: string;
  updatedAt: string;
  memberships: Membership[];
  defaultOrganizationId: string;
}

/** Built field by field: what nobody names here, the password's hash above all, never leaves the service. */
export function userView(account: Account): UserView {
  return {
    id: account._id,
    accountCode: account.accountCode,
    email: account.email,
    fullName: account.fullName,
    role: account.role,
    status: account.status,
    createdAt: account.createdAt.toISOString(),
    updatedAt: account.updatedAt.toISOString(),
    memberships: account.memberships.map(({ organizationId, organizationName, role, status }) => ({
      organizationId,
      organizationName,
      role,
      status,
    })),
    defaultOrganizationId: account.defaultOrganizationId,
  };
}
