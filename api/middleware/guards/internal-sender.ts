import type { Guard } from '#api/route.ts';
import type { ErrorCode } from '#shared/kernel/errors.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { singleHeader } from './single-header.ts';

export interface InternalSender {
  /** The only service that may send here. */
  sender: string;
  token: string | undefined;
  unauthorizedCode: ErrorCode;
  /** Answered while no token is configured: an open door would be worse than a closed one. */
  unconfiguredCode: ErrorCode;
}

/** Demands the service name and its token, before a byte of the body is read. Fills `identity.sender`. */
export function internalSender(config: InternalSender): Guard {
  const isToken = secretCheck(config.token);
  return {
    name: 'internalSender',
    codes: [config.unconfiguredCode, config.unauthorizedCode],
    headers: [
      { name: 'x-internal-service', required: true, description: 'The calling service', example: config.sender },
      { name: 'x-internal-token', required: true, description: 'The receiver token of this service' },
    ],
    check(head, known) {
      if (isToken === undefined) return { rejected: config.unconfiguredCode };
      const token = singleHeader(head, 'x-internal-token');
      if (token === undefined || !isToken(token) || singleHeader(head, 'x-internal-service') !== config.sender) {
        return { rejected: config.unauthorizedCode };
      }
      known.sender = config.sender;
      return undefined;
    },
  };
}
