/** Why a session is over: its owner left, ended it from elsewhere, changed the password, a stolen token came back, an operator. */
export type SessionEnd = 'LOGOUT' | 'ENDED' | 'PASSWORD' | 'REUSE' | 'OPERATOR';

/** One login and all the refresh tokens that descend from it. */
export interface Session {
  /** The `sid` of its tokens, a UUIDv7. */
  _id: string;
  accountId: string;
  /** At most USER_AGENT_LENGTH characters. */
  userAgent: string | null;
  createdAt: Date;
  lastUsedAt: Date;
  /** That of its newest refresh token. */
  expiresAt: Date;
  endedAt: Date | null;
  endReason: SessionEnd | null;
}

export const USER_AGENT_LENGTH = 300;

/** A refresh token as it is kept; never the token itself. */
export interface RefreshToken {
  /** Its `jti`, a UUIDv7. */
  _id: string;
  sessionId: string;
  accountId: string;
  /** bcrypt over the SHA-256 of the token. */
  hash: string;
  issuedAt: Date;
  expiresAt: Date;
  /** When it was exchanged for its successor; it stays until it expires, or its reuse could not be seen. */
  consumedAt: Date | null;
  successorId: string | null;
}
