export const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;
export type Role = (typeof ROLES)[number];

/** SUSPENDED may come back, DELETED never does: to whoever asks it is an account that does not exist. */
export const ACCOUNT_STATUSES = ['ACTIVE', 'SUSPENDED', 'DELETED'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

/** What the account is in an organization. */
export interface Membership {
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
