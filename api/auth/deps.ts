import type { Call } from '#api/route.ts';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Signer } from '#infra/jwt/signer.ts';
import { findSession } from '#infra/mongo/auth/sessions.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import type { AddressFailures } from '#infra/redis/address-failures.ts';
import type { Account } from '#shared/auth/account.ts';
import type { Session } from '#shared/auth/session.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { CallerAddress } from './caller-address.ts';

/** What the auth service's front door works with. */
export interface AuthDeps {
  mongo: Mongo;
  hasher: Hasher;
  signer: Signer;
  /** Wrong passwords by the address that they came from. */
  addressFailures: AddressFailures;
  addressOf: CallerAddress;
  /** Whether a lower-case text is among the passwords that everybody tries first. */
  isCommonPassword: (text: string) => boolean;
  /** MongoDB's time. */
  now: Now;
  settings: AuthSettings;
}

/** Whose call it is, and in which of the sessions. */
export interface Current {
  account: Account;
  session: Session;
}

/** Who calls, as account and session are now: a good access token of an ended session or a lost account is worth nothing. */
export async function currentOf(deps: Pick<AuthDeps, 'mongo' | 'now'>, call: Call): Promise<Current | Rejection> {
  const claimed = call.identity.session;
  if (claimed === undefined) throw new Error('a route without access token asked for its caller');
  const { session, account } = await findSession(deps.mongo, { sub: claimed.accountId, sid: claimed.sessionId });
  if (session === null || session.endedAt !== null || session.expiresAt.getTime() <= deps.now()) {
    return { rejected: 'AUTH_INVALID_TOKEN' };
  }
  if (account === null || account.status === 'DELETED') return { rejected: 'AUTH_INVALID_TOKEN' };
  if (account.status === 'SUSPENDED') return { rejected: 'AUTH_ACCOUNT_DISABLED' };
  return { account, session };
}
