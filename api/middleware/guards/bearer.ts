import type { Guard } from '#api/route.ts';
import { bearerToken } from './bearer-token.ts';

const HEADER = { name: 'authorization', example: 'Bearer eyJhbGciOiJIUzI1NiJ9…' };

/** Reads an access token: its account and session, or null. What they are now, a handler looks up. */
export type ReadAccess = (token: string) => { sub: string; sid: string } | null;

/** Demands a good access token and fills `identity.session`. */
export function accessToken(read: ReadAccess): Guard {
  return {
    name: 'accessToken',
    codes: ['AUTH_INVALID_TOKEN'],
    headers: [{ ...HEADER, required: true, description: 'Bearer and the access token' }],
    check(head, known) {
      const token = bearerToken(head);
      const claims = token === undefined ? null : read(token);
      if (claims === null) return { rejected: 'AUTH_INVALID_TOKEN' };
      known.session = { accountId: claims.sub, sessionId: claims.sid };
      return undefined;
    },
  };
}

/**
 * Fills `identity.bearer` with a token that may as well stand in the body. A malformed header is refused, unless `isLenient`:
 * whoever wants to be rid of a token is not told that it is none.
 */
export function tokenInHeader({ isLenient }: { isLenient: boolean }): Guard {
  return {
    name: 'tokenInHeader',
    codes: isLenient ? [] : ['AUTH_INVALID_TOKEN'],
    headers: [{ ...HEADER, required: false, description: 'Bearer and the refresh token, where the body has none' }],
    check(head, known) {
      const token = bearerToken(head);
      if (token !== undefined) known.bearer = token;
      else if (head.headers.authorization !== undefined && !isLenient) return { rejected: 'AUTH_INVALID_TOKEN' };
      return undefined;
    },
  };
}
