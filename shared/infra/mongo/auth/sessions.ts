import type { ClientSession, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type GuardedUpdate, guardedUpdate, literal, msOf, NOW_MS, Stale } from '#infra/mongo/guarded-update.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { Current, PresentedRefresh, RefreshToken, Session, SessionEnd } from '#shared/auth/session.ts';
import { newId } from '#shared/kernel/ids.ts';
import { findAccount } from './accounts.ts';
import { accounts, type SecurityEvent, securityEvents, sessions, tokens } from './collections.ts';

/** Returns the session and account that an access token names, as they are now. A session of another account is treated as missing. */
export async function findSession(
  mongo: Mongo,
  claims: { sub: string; sid: string },
): Promise<({ kind: 'found' } & Current) | { kind: 'missing' }> {
  const [session, account] = await Promise.all([
    sessions(mongo).findOne({ _id: claims.sid }, { maxTimeMS: QUERY_LIMIT_MS }),
    findAccount(mongo, claims.sub),
  ]);
  if (account === null || session?.accountId !== account._id) return { kind: 'missing' };
  return { kind: 'found', session, account };
}

/** Returns the stored row of a refresh token. A row of another session or account is treated as missing. */
export async function findToken(
  mongo: Mongo,
  claims: { jti: string; sid: string; sub: string },
): Promise<RefreshToken | null> {
  const token = await tokens(mongo).findOne({ _id: claims.jti }, { maxTimeMS: QUERY_LIMIT_MS });
  return token?.sessionId === claims.sid && token.accountId === claims.sub ? token : null;
}

/**
 * Returns the token's row, session and account by three reads at once. The reads are of no one instant: a decision on them holds only
 * if rotateToken finds token and session in the same state. `missing`: one of the three is, or belongs to another session or account.
 */
export async function findRefresh(
  mongo: Mongo,
  claims: { jti: string; sid: string; sub: string },
): Promise<({ kind: 'found' } & PresentedRefresh) | { kind: 'missing' }> {
  const [token, current] = await Promise.all([findToken(mongo, claims), findSession(mongo, claims)]);
  return token === null || current.kind === 'missing' ? { kind: 'missing' } : { ...current, token };
}

/** As many as the reply's schema holds. Who signs in more often in a month, and never out, sees those used last. */
const MAX_LISTED = 1_000;

/** The sessions that live by `now` (Unix milliseconds, MongoDB's clock), the last used first. */
export async function liveSessions(mongo: Mongo, accountId: string, now: number): Promise<Session[]> {
  return sessions(mongo)
    .find({ accountId, endedAt: null, expiresAt: { $gt: new Date(now) } }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ lastUsedAt: -1, _id: -1 })
    .limit(MAX_LISTED)
    .toArray();
}

/**
 * Stores a login: session and first refresh token, or neither. `passwordHash` is the stored hash that the password was
 * found right by. Checking a password takes a quarter of a second, in which it may be changed or the account suspended,
 * and all sessions ended; a login that was stored after that would outlive it. So the account must still be ACTIVE and have
 * that hash, and it is written as well: of a login and such a change at once, one sees the other.
 * `outdated`: nothing was stored; look at the account again.
 */
export async function openSession(
  mongo: Mongo,
  opened: { session: Session; token: RefreshToken; passwordHash: string },
  budgetMs: number,
): Promise<{ kind: 'opened' } | { kind: 'outdated' }> {
  const { accountId } = opened.session;
  return inTransaction(mongo, budgetMs, async (session) => {
    const unchanged = guardedUpdate(
      [{ $eq: ['$status', 'ACTIVE'] }, { $eq: ['$password.hash', literal(opened.passwordHash)] }],
      { lastLoginAt: '$$NOW' },
    );
    const held = await accounts(mongo).updateOne({ _id: accountId }, unchanged.pipeline, { session });
    if (held.modifiedCount !== 1) return { kind: 'outdated' };
    await sessions(mongo).insertOne(opened.session, { session });
    await tokens(mongo).insertOne(opened.token, { session });
    return { kind: 'opened' };
  });
}

interface Rotation {
  /** `jti` of the token that is exchanged. */
  presented: string;
  sessionId: string;
  successor: RefreshToken;
  /** Until when the session lives from now on: that of the successor. */
  expiresAt: Date;
}

/**
 * Exchanges a refresh token for its successor: consumes the one, stores the other and moves its session on, or none of it.
 * `lost`: somebody else consumed it first, it has expired, or its session is over. Whoever ends a session writes the
 * same document, so no token comes into one that is being ended.
 */
export async function rotateToken(
  mongo: Mongo,
  rotation: Rotation,
  budgetMs: number,
): Promise<{ kind: 'rotated' } | { kind: 'lost' }> {
  try {
    await inTransaction(mongo, budgetMs, async (session) => {
      const consume = guardedUpdate(
        [
          { $eq: ['$consumedAt', null] },
          { $eq: ['$sessionId', literal(rotation.sessionId)] },
          { $gt: [msOf('$expiresAt'), NOW_MS] },
        ],
        { consumedAt: '$$NOW', successorId: literal(rotation.successor._id) },
      );
      const moveOn = guardedUpdate([{ $eq: ['$endedAt', null] }], {
        lastUsedAt: '$$NOW',
        expiresAt: literal(rotation.expiresAt),
      });
      const consumed = await tokens(mongo).updateOne({ _id: rotation.presented }, consume.pipeline, { session });
      if (consumed.modifiedCount !== 1) throw new Stale(`refresh token ${rotation.presented}`);
      const moved = await sessions(mongo).updateOne({ _id: rotation.sessionId }, moveOn.pipeline, { session });
      if (moved.modifiedCount !== 1) throw new Stale(`session ${rotation.sessionId}`);
      await tokens(mongo).insertOne(rotation.successor, { session });
    });
    return { kind: 'rotated' };
  } catch (error) {
    if (error instanceof Stale) return { kind: 'lost' };
    throw error;
  }
}

/**
 * A consumed token came back: two hold it, and nobody can say which is the thief. Ends its session, whoever is in it, and
 * writes the security event, in one commit. False: the session was over already, and what ended it is told already.
 */
export async function reportReuse(
  mongo: Mongo,
  token: Pick<RefreshToken, '_id' | 'sessionId' | 'accountId' | 'consumedAt' | 'successorId'>,
  now: number,
  budgetMs: number = FRONT_DOOR_BUDGET_MS,
): Promise<boolean> {
  return inTransaction(mongo, budgetMs, async (session) => {
    const ended = await sessions(mongo).updateOne({ _id: token.sessionId }, ending('REUSE').pipeline, { session });
    if (ended.modifiedCount !== 1) return false;
    const { accountId, sessionId, consumedAt, successorId } = token;
    const metadata = { tokenId: token._id, consumedAt: consumedAt?.toISOString() ?? null, successorId };
    await noteSecurityEvent(mongo, { accountId, sessionId, type: 'REFRESH_REUSE', metadata }, now, session);
    return true;
  });
}

/** Ends one live session of the account. False: it has none of that id. */
export async function endSession(
  mongo: Mongo,
  wanted: { accountId: string; sessionId: string; reason: SessionEnd },
): Promise<boolean> {
  const { pipeline } = ending(wanted.reason, { $eq: ['$accountId', literal(wanted.accountId)] });
  const ended = await sessions(mongo).updateOne({ _id: wanted.sessionId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
  return ended.modifiedCount === 1;
}

/**
 * Ends the account's live sessions but the one to `keep` (null: all of them), by itself or in the caller's transaction; gives
 * how many. By itself it is no one instant: killed half way it has ended some, and ends the rest when called again.
 */
export async function endOtherSessions(
  mongo: Mongo,
  wanted: { accountId: string; keep: string | null; reason: SessionEnd },
  session?: ClientSession,
): Promise<number> {
  const { accountId, keep, reason } = wanted;
  const others = keep === null ? [] : [{ $ne: ['$_id', literal(keep)] }];
  const ended = await sessions(mongo).updateMany(
    { accountId, endedAt: null },
    ending(reason, ...others).pipeline,
    session === undefined ? { maxTimeMS: QUERY_LIMIT_MS } : { session },
  );
  return ended.modifiedCount;
}

/** Ends a session that lives: one that is over keeps its time and its reason, and one that has expired is over. */
function ending(reason: SessionEnd, ...conditions: Document[]): GuardedUpdate {
  return guardedUpdate([{ $eq: ['$endedAt', null] }, { $gt: [msOf('$expiresAt'), NOW_MS] }, ...conditions], {
    endedAt: '$$NOW',
    endReason: literal(reason),
  });
}

/** Writes a security event in the transaction of what it tells of: neither is there without the other. */
export async function noteSecurityEvent(
  mongo: Mongo,
  event: Omit<SecurityEvent, '_id' | 'at'>,
  now: number,
  session: ClientSession,
): Promise<void> {
  await securityEvents(mongo).insertOne({ _id: newId(now), ...event, at: new Date(now) }, { session });
}

/** The account's newest security events, newest first. */
export async function newestSecurityEvents(mongo: Mongo, accountId: string, limit: number): Promise<SecurityEvent[]> {
  return securityEvents(mongo)
    .find({ accountId }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ at: -1 })
    .limit(limit)
    .toArray();
}
