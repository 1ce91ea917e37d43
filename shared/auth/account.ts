import type { Rejection } from '#shared/kernel/errors.ts';

/** One person's native identity. */
export interface Account {
  /** A UUIDv7. */
  _id: string;
  /** `ACC-` and 8 Crockford base32; unique, made to be read aloud. */
  accountCode: string;
  /** Normalized; unique. */
  email: string;
  /** E.164; unique among those that have one. */
  phone: string | null;
  /** Whether `phone` is set: a unique index that leaves out the phoneless needs an equality to tell them by. */
  hasPhone: boolean;
  /** The id in the previous system; unique among those that have one. */
  legacyId: string | null;
  hasLegacyId: boolean;
  fullName: string;
  role: Role;
  status: AccountStatus;
  memberships: Membership[];
  defaultOrganizationId: string;
  password: StoredPassword;
  createdAt: Date;
  updatedAt: Date;
}

export const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;
export type Role = (typeof ROLES)[number];

/** SUSPENDED may come back, DELETED never does: to whoever asks it is an account that does not exist. */
export const ACCOUNT_STATUSES = ['ACTIVE', 'SUSPENDED', 'DELETED'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

/** Returns the account, or null if it is missing or DELETED: callers cannot tell the two apart. */
export function existing(account: Account | null): Account | null {
  return account?.status === 'DELETED' ? null : account;
}

/**
 * Refuses an existing account that is SUSPENDED; null if its owner may act. Only a caller that has proven to be its owner may see
 * the rejection.
 */
export function whyAccountRefused({ status }: Pick<Account, 'status'>): Rejection | null {
  return status === 'SUSPENDED' ? { rejected: 'AUTH_ACCOUNT_DISABLED' } : null;
}

/** What the account is in an organization. */
interface Membership {
  organizationId: string;
  organizationName: string;
  role: Role;
  status: 'ACTIVE';
}

/**
 * A password as it is kept. `bcrypt-sha256`: bcrypt over base64(SHA-256 of the NFC text), so that every byte counts and a NUL
 * ends nothing. `bcrypt`: plain, as imported from elsewhere; replaced at the next login.
 */
export interface StoredPassword {
  scheme: 'bcrypt-sha256' | 'bcrypt';
  hash: string;
}

/** Crockford base32: without I, L, O and U, which are misheard, misread or make words. */
const CODE_ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const CODE_LETTERS = 8;
/** Random bytes that a code takes. */
export const ACCOUNT_CODE_BYTES = (CODE_LETTERS * 5) / 8;

/** `ACC-` and 8 letters from the first ACCOUNT_CODE_BYTES of the given random bytes. @throws RangeError when there are fewer. */
export function accountCodeOf(bytes: Uint8Array): string {
  if (bytes.length < ACCOUNT_CODE_BYTES)
    throw new RangeError(`An account code takes ${ACCOUNT_CODE_BYTES} random bytes`);
  const bits = bytes.subarray(0, ACCOUNT_CODE_BYTES).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n as bigint);
  const letters = Array.from({ length: CODE_LETTERS }, (_, index) => {
    return CODE_ALPHABET[Number((bits >> BigInt(5 * (CODE_LETTERS - 1 - index))) & 31n)];
  });
  return `ACC-${letters.join('')}`;
}

/** An account as its owner sees it. */
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
