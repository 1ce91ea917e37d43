import { randomBytes } from 'node:crypto';
import { accounts, sessions, tokens } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type Account, accountCodeOf } from '#shared/auth/account.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import { newId } from '#shared/kernel/ids.ts';
import { DAY } from '#shared/kernel/time.ts';

/** One login as it is stored: who, where, and with which token. */
export interface SignedIn {
  account: Account;
  session: Session;
  token: RefreshToken;
}

const LIFE_MS = 30 * DAY;

/** A student's account that no unique index confuses with another one. */
export function freshAccount(overrides: Partial<Account> = {}): Account {
  const id = overrides._id ?? newId();
  const { phone = null, legacyId = null } = overrides;
  const now = new Date();
  return {
    _id: id,
    accountCode: accountCodeOf(randomBytes(5)),
    email: `an-${id}@school.vn`,
    fullName: 'Nguyễn Thị An',
    phone,
    hasPhone: phone !== null,
    legacyId,
    hasLegacyId: legacyId !== null,
    role: 'STUDENT',
    status: 'ACTIVE',
    memberships: [{ organizationId: 'local', organizationName: 'Local', role: 'STUDENT', status: 'ACTIVE' }],
    defaultOrganizationId: 'local',
    password: { scheme: 'bcrypt-sha256', hash: `hash-of-${id}` },
    createdAt: now,
    updatedAt: now,
    ...overrides,
  };
}

/** A new session of the account and its first token, not stored. */
export function freshSession(account: Account): { session: Session; token: RefreshToken } {
  const now = new Date();
  const expiresAt = new Date(now.getTime() + LIFE_MS);
  const session: Session = {
    _id: newId(),
    accountId: account._id,
    userAgent: 'tap',
    createdAt: now,
    lastUsedAt: now,
    expiresAt,
    endedAt: null,
    endReason: null,
  };
  return { session, token: freshToken(session) };
}

/** A further token of the session, not stored. */
export function freshToken(session: Session, overrides: Partial<RefreshToken> = {}): RefreshToken {
  const id = newId();
  return {
    _id: id,
    sessionId: session._id,
    accountId: session.accountId,
    hash: `hash-of-${id}`,
    issuedAt: new Date(),
    expiresAt: session.expiresAt,
    consumedAt: null,
    successorId: null,
    ...overrides,
  };
}

/** Stores an account that is signed in once. */
export async function storeSignedIn(mongo: Mongo, overrides: Partial<Account> = {}): Promise<SignedIn> {
  const account = freshAccount(overrides);
  await accounts(mongo).insertOne(account);
  return { account, ...(await storeSession(mongo, account)) };
}

/** Stores one more session of the account. */
export async function storeSession(mongo: Mongo, account: Account): Promise<Omit<SignedIn, 'account'>> {
  const { session, token } = freshSession(account);
  await sessions(mongo).insertOne(session);
  await tokens(mongo).insertOne(token);
  return { session, token };
}

/** The claims of the token's JWT, by which it is found. */
export function claimsOf(token: RefreshToken): { jti: string; sid: string; sub: string } {
  return { jti: token._id, sid: token.sessionId, sub: token.accountId };
}
