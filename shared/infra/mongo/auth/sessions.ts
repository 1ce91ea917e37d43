import type { ClientSession, Document } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type GuardedUpdate, guardedUpdate, literal, msOf, NOW_MS, Stale } from '#infra/mongo/guarded-update.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { ACCOUNT_NOTICE_ATTEMPTS, accountNotice, accountNoticeOrder } from '#shared/auth/notices.ts';
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
    sessions(mongo).findOne({ _id: claims.sid, accountId: claims.sub }, { maxTimeMS: QUERY_LIMIT_MS }),
    findAccount(mongo, claims.sub),
  ]);
  if (account === null || session === null) return { kind: 'missing' };
  return { kind: 'found', session, account };
}

/** Returns the stored row of a refresh token. A row of another session or account is treated as missing. */
export function findToken(
  mongo: Mongo,
  claims: { jti: string; sid: string; sub: string },
): Promise<RefreshToken | null> {
  const { jti: _id, sid: sessionId, sub: accountId } = claims;
  return tokens(mongo).findOne({ _id, sessionId, accountId }, { maxTimeMS: QUERY_LIMIT_MS });
}

/**
 * Returns the token's row, session and account by three concurrent reads, which may see different instants. A decision on them
 * holds only if rotateToken finds token and session in the same state. `missing`: one of the three does not exist, or belongs to
 * another session or account.
 */
export async function findRefresh(
  mongo: Mongo,
  claims: { jti: string; sid: string; sub: string },
): Promise<({ kind: 'found' } & PresentedRefresh) | { kind: 'missing' }> {
  const [token, current] = await Promise.all([findToken(mongo, claims), findSession(mongo, claims)]);
  return token === null || current.kind === 'missing' ? { kind: 'missing' } : { ...current, token };
}

/** Maximum number of sessions in the reply's schema. An account with more live sessions gets the last used ones. */
const MAX_LISTED = 1_000;

/** Returns the sessions that are live at `now` (Unix ms, MongoDB's clock) and younger than `maxAgeMs`, the last used first. */
export async function liveSessions(
  mongo: Mongo,
  accountId: string,
  { now, maxAgeMs }: { now: number; maxAgeMs: number },
): Promise<Session[]> {
  const live = { endedAt: null, expiresAt: { $gt: new Date(now) }, createdAt: { $gt: new Date(now - maxAgeMs) } };
  return sessions(mongo)
    .find({ accountId, ...live }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ lastUsedAt: -1, _id: -1 })
    .limit(MAX_LISTED)
    .toArray();
}

/**
 * Stores a login: session and first refresh token, or neither. `passwordHash` is the stored hash against which the password was
 * verified.
 *
 * Verifying takes a quarter of a second. In that time the password may change, or the account may be suspended or deleted; a
 * login stored afterwards would survive that. So the account must still be ACTIVE and have that hash. The login writes the
 * account as well, so that of a login and a concurrent change one sees the other.
 *
 * `strangerFrom` is the keyed hash of an address that is no known pair of the account. If the account has signed in before, by a login
 * or at its registration, the commit contains the security event NEW_ADDRESS.
 *
 * `outdated`: nothing was stored; read the account again.
 */
export async function openSession(
  mongo: Mongo,
  opened: { session: Session; token: RefreshToken; passwordHash: string; strangerFrom?: string | null },
  budgetMs: number,
): Promise<{ kind: 'opened' } | { kind: 'outdated' }> {
  const { accountId, _id: sessionId, createdAt } = opened.session;
  const { strangerFrom = null } = opened;
  return inTransaction(mongo, budgetMs, async (session) => {
    const unchanged = guardedUpdate(
      [{ $eq: ['$status', 'ACTIVE'] }, { $eq: ['$password.hash', literal(opened.passwordHash)] }],
      { lastLoginAt: '$$NOW' },
    );
    const isNew = strangerFrom !== null && (await hasSignedIn(mongo, accountId, session));
    const held = await accounts(mongo).updateOne({ _id: accountId }, unchanged.pipeline, { session });
    if (held.modifiedCount !== 1) return { kind: 'outdated' };
    await sessions(mongo).insertOne(opened.session, { session });
    await tokens(mongo).insertOne(opened.token, { session });
    const event = { accountId, sessionId, type: 'NEW_ADDRESS', metadata: { address: strangerFrom } } as const;
    if (isNew) await noteSecurityEvent(mongo, event, createdAt.getTime(), session);
    return { kind: 'opened' };
  });
}

/** An account that its owner registered has signed in; an imported one has not before its first login. */
async function hasSignedIn(mongo: Mongo, _id: string, session: ClientSession): Promise<boolean> {
  const projection = { lastLoginAt: 1, importedAt: 1 };
  const account = await accounts(mongo).findOne({ _id }, { session, projection });
  return account !== null && (account.lastLoginAt !== undefined || account.importedAt === undefined);
}

interface Rotation {
  /** `jti` of the token that is exchanged. */
  presented: string;
  sessionId: string;
  /** The session expires when this token does. */
  successor: RefreshToken;
}

/**
 * Exchanges a refresh token for its successor: consumes the token, stores the successor and extends the session, all or nothing.
 * `lost`: another request consumed the token first, the token has expired, its session was ended, or the session has reached its
 * latest end, which bounds the successor too. Ending a session writes the same document, so a session that is being ended gets no
 * new token.
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
      // The successor belongs to the same account.
      const { accountId, expiresAt } = rotation.successor;
      const moveOn = guardedUpdate([{ $eq: ['$endedAt', null] }, { $gt: [expiresAt.getTime(), NOW_MS] }], {
        lastUsedAt: '$$NOW',
        expiresAt: literal(expiresAt),
      });
      const consumed = await tokens(mongo).updateOne({ _id: rotation.presented, accountId }, consume.pipeline, {
        session,
      });
      if (consumed.modifiedCount !== 1) throw new Stale(`refresh token ${rotation.presented}`);
      const moved = await sessions(mongo).updateOne({ _id: rotation.sessionId, accountId }, moveOn.pipeline, {
        session,
      });
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
 * Ends the session of a consumed token that was presented again, and writes the security event, in one commit. Two parties hold
 * such a token and either may be the thief, so both lose the session. Returns false, and writes nothing, if the session was over
 * already.
 */
export async function reportReuse(
  mongo: Mongo,
  token: Pick<RefreshToken, '_id' | 'sessionId' | 'accountId' | 'consumedAt' | 'successorId'>,
  now: number,
  budgetMs: number = FRONT_DOOR_BUDGET_MS,
): Promise<boolean> {
  return inTransaction(mongo, budgetMs, async (session) => {
    const { accountId, sessionId, consumedAt, successorId } = token;
    const { pipeline } = endSessionUpdate('REUSE');
    const ended = await sessions(mongo).updateOne({ _id: sessionId, accountId }, pipeline, { session });
    if (ended.modifiedCount !== 1) return false;
    const metadata = { tokenId: token._id, consumedAt: consumedAt?.toISOString() ?? null, successorId };
    await noteSecurityEvent(mongo, { accountId, sessionId, type: 'REFRESH_REUSE', metadata }, now, session);
    return true;
  });
}

/**
 * Ends one live session of the account. Returns false if the account has no live session of that id, or if that session is
 * `maxAgeMs` old or older.
 */
export async function endSession(
  mongo: Mongo,
  wanted: { accountId: string; sessionId: string; reason: SessionEnd; maxAgeMs: number },
): Promise<boolean> {
  const { accountId, sessionId: _id, reason, maxAgeMs } = wanted;
  const { pipeline } = endSessionUpdate(reason, { $gt: [{ $add: [msOf('$createdAt'), maxAgeMs] }, NOW_MS] });
  const ended = await sessions(mongo).updateOne({ _id, accountId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
  return ended.modifiedCount === 1;
}

/**
 * Ends the account's sessions except `keep` (null: all of them), alone or in the caller's transaction. Returns the number of
 * ended sessions. Their age does not matter: front doors may allow a longer life than the operator's tool knows of. Without a
 * transaction it is not atomic: a process killed half way has ended some sessions, and another call ends the rest.
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
    endSessionUpdate(reason, ...others).pipeline,
    session === undefined ? { maxTimeMS: QUERY_LIMIT_MS } : { session },
  );
  return ended.modifiedCount;
}

/**
 * Returns the update that ends a live session. A session that is over keeps its end time and reason; an expired session is over.
 */
function endSessionUpdate(reason: SessionEnd, ...conditions: Document[]): GuardedUpdate {
  return guardedUpdate([{ $eq: ['$endedAt', null] }, { $gt: [msOf('$expiresAt'), NOW_MS] }, ...conditions], {
    endedAt: '$$NOW',
    endReason: literal(reason),
  });
}

/**
 * Writes a security event in the transaction of the change that it records: neither exists without the other. If the owner is to be
 * notified, the same transaction contains the command that does so. No doorbell is rung: the worker's poll finds the command.
 */
export async function noteSecurityEvent(
  mongo: Mongo,
  event: Omit<SecurityEvent, '_id' | 'at'>,
  now: number,
  session: ClientSession,
): Promise<void> {
  const stored: SecurityEvent = { _id: newId(now), ...event, at: new Date(now) };
  await securityEvents(mongo).insertOne(stored, { session });
  const notice = accountNotice(stored);
  if (notice === null) return;
  const command = { ...accountNoticeOrder(notice), id: notice.eventId, maxAttempts: ACCOUNT_NOTICE_ATTEMPTS, now };
  await postCommandIn(mongo, session, newCommand(command));
}

/** Returns at most `limit` security events of the account, newest first. */
export async function newestSecurityEvents(mongo: Mongo, accountId: string, limit: number): Promise<SecurityEvent[]> {
  return securityEvents(mongo)
    .find({ accountId }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ at: -1 })
    .limit(limit)
    .toArray();
}
