import type {
  AccountRow,
  KnownPairRow,
  SecurityEvent,
  SessionRow,
  ThrottleRow,
  TokenRow,
} from '#infra/mongo/auth/collections.ts';
import { byPerson, declareRows } from './rules.ts';

/** Every row of an account is deleted. The account is last, because its e-mail leads to the rows before it. */
export const AUTH_FIELDS = {
  auth_throttles: declareRows<ThrottleRow>()([{ by: 'email', field: '_id', erase: 'delete' }], {
    deleted: '_id tries failures blockedUntil lastTryAt round',
    technical: 'stamp',
  }),
  auth_known_pairs: declareRows<KnownPairRow>()([{ by: 'email', field: 'account', erase: 'delete' }], {
    deleted: '_id account signedInAt tries failures blockedUntil lastTryAt round',
    technical: 'stamp',
  }),
  auth_sessions: declareRows<SessionRow>()([byPerson('accountId')], {
    deleted: '_id accountId userAgent createdAt lastUsedAt expiresAt endedAt endReason',
    technical: 'stamp',
  }),
  auth_tokens: declareRows<TokenRow>()([byPerson('accountId')], {
    deleted: '_id sessionId accountId issuedAt expiresAt consumedAt successorId',
    secret: 'hash',
    technical: 'stamp',
  }),
  auth_security_events: declareRows<SecurityEvent>()([byPerson('accountId')], {
    deleted: '_id accountId sessionId type at metadata',
  }),
  accounts: declareRows<AccountRow>()([byPerson('_id')], {
    deleted: `_id accountCode email phone hasPhone legacyId hasLegacyId fullName role status memberships
      defaultOrganizationId deviceEpoch createdAt updatedAt lastLoginAt importedAt`,
    secret: 'password',
    technical: 'stamp',
  }),
} as const;
