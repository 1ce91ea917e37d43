import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { Account } from '#shared/auth/account.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import type { Throttle } from '#shared/auth/throttle.ts';

export interface AccountRow extends Account, Stamped {
  /** Time of the last login that opened a session; absent before the first one. */
  lastLoginAt?: Date;
  /** Time of the import that created the account; absent if its owner registered. */
  importedAt?: Date;
}
export type SessionRow = Session & Stamped;
export type TokenRow = RefreshToken & Stamped;

/** `_id` = throttleKey of the e-mail, or deviceKey of a device token. */
export interface ThrottleRow extends Throttle, Stamped {
  /** A random word, drawn when the count began. A login attempt is refunded only in the round that counted it. */
  round: string;
}

/** `_id` = pairKey: a digest of the e-mail and the address. The counts are those of the login attempts from there alone. */
export interface KnownPairRow extends ThrottleRow {
  /** throttleKey of the e-mail. */
  account: string;
  /** The last sign-in of the account from this address. */
  signedInAt: Date;
}

export type SecurityEventType =
  | 'REFRESH_REUSE'
  | 'LOGIN_LOCKED'
  | 'ADDRESS_SLOWED'
  | 'NEW_ADDRESS'
  | 'PASSWORD_CHANGED'
  | 'PASSWORD_SET'
  | 'STATUS_CHANGED'
  | 'ROLE_CHANGED';

/** An event that helps an operator to investigate a stolen account; stored for 400 days. */
export interface SecurityEvent {
  /** UUIDv7; of an event that is written once in a period, its cause and the period. */
  _id: string;
  /** Null if it belongs to no account: an unknown e-mail, or strangers of an address. */
  accountId: string | null;
  /** The session in which it happened; null if there was no session, or if an operator did it. */
  sessionId: string | null;
  type: SecurityEventType;
  at: Date;
  /** Addresses are keyed hashes, never plain. */
  metadata: Readonly<Record<string, string | number | null>>;
}

export const ACCOUNTS = 'accounts';
export const SESSIONS = 'auth_sessions';
export const TOKENS = 'auth_tokens';
export const THROTTLES = 'auth_throttles';
export const KNOWN_PAIRS = 'auth_known_pairs';
export const SECURITY_EVENTS = 'auth_security_events';

export const accounts = (mongo: Mongo): Collection<AccountRow> => mongo.db.collection(ACCOUNTS);
export const sessions = (mongo: Mongo): Collection<SessionRow> => mongo.db.collection(SESSIONS);
export const tokens = (mongo: Mongo): Collection<TokenRow> => mongo.db.collection(TOKENS);
export const throttles = (mongo: Mongo): Collection<ThrottleRow> => mongo.db.collection(THROTTLES);
export const knownPairs = (mongo: Mongo): Collection<KnownPairRow> => mongo.db.collection(KNOWN_PAIRS);
export const securityEvents = (mongo: Mongo): Collection<SecurityEvent> => mongo.db.collection(SECURITY_EVENTS);
