import type { Rejection } from '#shared/kernel/errors.ts';

/** One person's native identity. */
export interface Account {
  /** A UUIDv7. */
  _id: string;
  /** `ACC-` and 8 characters of Crockford base32; unique and easy to read aloud. */
  accountCode: string;
  /** Normalized; unique. */
  email: string;
  /** E.164; unique among the accounts with a phone. */
  phone: string | null;
  /** True if `phone` is set. The unique index on `phone` covers these accounts only, and its filter needs an equality. */
  hasPhone: boolean;
  /** The id in the previous system; unique among the accounts with such an id. */
  legacyId: string | null;
  hasLegacyId: boolean;
  fullName: string;
  role: Role;
  status: AccountStatus;
  memberships: Membership[];
  defaultOrganizationId: string;
  password: StoredPassword;
  /** A random word in its device tokens. A new one ends those before it; absent: none were ended yet. */
  deviceEpoch?: string;
  createdAt: Date;
  updatedAt: Date;
}

export const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;
export type Role = (typeof ROLES)[number];

/** A SUSPENDED account can become ACTIVE again. DELETED is final: callers see a DELETED account as missing. */
export const ACCOUNT_STATUSES = ['ACTIVE', 'SUSPENDED', 'DELETED'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

/** Returns the account, or null if it is missing or DELETED. Callers cannot distinguish the two cases. */
export function existing(account: Account | null): Account | null {
  return account?.status === 'DELETED' ? null : account;
}

/**
 * Returns the rejection of a SUSPENDED account, or null if its owner may act. Only a caller that has proven to be the owner
 * may receive the rejection.
 */
export function whyAccountRefused({ status }: Pick<Account, 'status'>): Rejection | null {
  return status === 'SUSPENDED' ? { rejected: 'AUTH_ACCOUNT_DISABLED' } : null;
}

/** The account's role and status in one organization. */
interface Membership {
  organizationId: string;
  organizationName: string;
  role: Role;
  status: 'ACTIVE';
}

/**
 * A stored password. `bcrypt-sha256` is bcrypt over base64(SHA-256 of the NFC text): bcrypt alone would ignore every byte after
 * the 72nd or after a NUL. `bcrypt` is an imported hash of the plain text; the next login replaces it.
 */
export interface StoredPassword {
  scheme: 'bcrypt-sha256' | 'bcrypt';
  hash: string;
}

/** Crockford base32. It omits I, L, O and U, which are easily misread or misheard or form words. */
const CODE_ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const CODE_LETTERS = 8;
/** Random bytes in one account code. */
export const ACCOUNT_CODE_BYTES = (CODE_LETTERS * 5) / 8;

/** Returns `ACC-` and 8 characters that encode the first ACCOUNT_CODE_BYTES bytes. @throws RangeError if there are fewer. */
export function accountCodeOf(bytes: Uint8Array): string {
  if (bytes.length < ACCOUNT_CODE_BYTES)
    throw new RangeError(`An account code takes ${ACCOUNT_CODE_BYTES} random bytes`);
  const bits = bytes.subarray(0, ACCOUNT_CODE_BYTES).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n as bigint);
  const letters = Array.from({ length: CODE_LETTERS }, (_, index) => {
    return CODE_ALPHABET[Number((bits >> BigInt(5 * (CODE_LETTERS - 1 - index))) & 31n)];
  });
  return `ACC-${letters.join('')}`;
}

/** The account fields that its owner may see. */
interface UserView {
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

/** Returns the owner's view of an account. Only named fields are copied, so that the password hash or a new field cannot leak. */
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
