import { accounts, throttles } from '#infra/mongo/auth/collections.ts';
import { liveSessions, newestSecurityEvents } from '#infra/mongo/auth/sessions.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { type Account, userView } from '#shared/auth/account.ts';
import type { Operator } from './operator.ts';

const NEWEST_EVENTS = 20;

/** An account as JSON, with what an operator is asked about it; of its password only how it is kept. */
export async function showAccount({ mongo, now, say }: Operator, account: Account): Promise<number> {
  const [row, sessions, throttle, securityEvents] = await Promise.all([
    accounts(mongo).findOne({ _id: account._id }, { projection: { lastLoginAt: 1 } }),
    liveSessions(mongo, account._id, now()),
    throttles(mongo).findOne({ _id: throttleKey(account.email) }),
    newestSecurityEvents(mongo, account._id, NEWEST_EVENTS),
  ]);
  const shown = {
    ...userView(account),
    phone: account.phone,
    legacyId: account.legacyId,
    passwordScheme: account.password.scheme,
    lastLoginAt: row?.lastLoginAt ?? null,
    sessions: sessions.map(({ _id, createdAt, lastUsedAt, expiresAt, userAgent }) => ({
      id: _id,
      createdAt,
      lastUsedAt,
      expiresAt,
      userAgent,
    })),
    throttle: throttle && {
      tries: throttle.tries,
      failures: throttle.failures,
      blockedUntil: throttle.blockedUntil,
      lastTryAt: throttle.lastTryAt,
    },
    securityEvents: securityEvents.map(({ type, at, sessionId, metadata }) => ({ type, at, sessionId, metadata })),
  };
  say(JSON.stringify(shown, null, 2));
  return 0;
}
