import { randomBytes } from 'node:crypto';
import { accounts, sessions, tokens } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type Account, accountCodeOf } from '#shared/auth/account.ts';
import { accountNotice, accountNoticeOrder } from '#shared/auth/notices.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import { newId } from '#shared/kernel/ids.ts';
import { DAY } from '#shared/kernel/time.ts';
import { type PostOptions, postOrder } from './stored-attempts.ts';

export type SignedIn = Awaited<ReturnType<typeof storeSignedIn>>;

const LIFE_MS = 30 * DAY;

/** Returns a student's account whose unique fields no other account has. */
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

/** Returns a new session of the account and its first token, without storing them. */
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

export async function storeSignedIn(mongo: Mongo, overrides: Partial<Account> = {}) {
  const account = freshAccount(overrides);
  await accounts(mongo).insertOne(account);
  return { account, ...(await storeSession(mongo, account)) };
}

/** Stores one more session of the account, begun `ageMs` ago. */
export async function storeSession(mongo: Mongo, account: Account, ageMs = 0) {
  const { session, token } = freshSession(account);
  session.createdAt = new Date(session.createdAt.getTime() - ageMs);
  await sessions(mongo).insertOne(session);
  await tokens(mongo).insertOne(token);
  return { session, token };
}

/** Returns the claims of the token's JWT, by which the token is looked up. */
export function claimsOf(token: RefreshToken): { jti: string; sid: string; sub: string } {
  return { jti: token._id, sid: token.sessionId, sub: token.accountId };
}

export async function postAccountNotice(mongo: Mongo, options?: PostOptions) {
  const event = { _id: newId(), accountId: newId(), type: 'PASSWORD_CHANGED', at: new Date() };
  const notice = accountNotice(event);
  if (notice === null) throw new Error('the owner is not notified of this event');
  return postOrder(mongo, { ...accountNoticeOrder(notice), id: notice.eventId }, options);
}
