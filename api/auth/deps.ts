import type { Call } from '#api/route.ts';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Signer } from '#infra/jwt/signer.ts';
import { findSession } from '#infra/mongo/auth/sessions.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import type { AddressFailures } from '#infra/redis/address-failures.ts';
import { whyAccountRefused } from '#shared/auth/account.ts';
import { type Current, isLost } from '#shared/auth/session.ts';
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

/** Returns the caller's account and session as they are now: an ended session or a missing account voids a good access token. */
export async function currentOf(deps: Pick<AuthDeps, 'mongo' | 'now'>, call: Call): Promise<Current | Rejection> {
  const claimed = call.identity.session;
  if (claimed === undefined) throw new Error('a route without access token asked for its caller');
  const found = await findSession(deps.mongo, { sub: claimed.accountId, sid: claimed.sessionId });
  if (found.kind === 'missing' || isLost(found) || found.session.expiresAt.getTime() <= deps.now()) {
    return { rejected: 'AUTH_INVALID_TOKEN' };
  }
  const { account, session } = found;
  return whyAccountRefused(account) ?? { account, session };
}
