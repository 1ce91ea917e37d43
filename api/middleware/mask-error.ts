import type { Rejection } from '#shared/kernel/errors.ts';

/**
 * What the caller learns of an error that a handler threw: that the store is away (503, come back), or nothing
 * (500). The error itself goes to the log only.
 */
export function maskError(error: unknown, isOutage: (error: unknown) => boolean): Rejection {
  return isOutage(error) ? { rejected: 'UNAVAILABLE', retryAfter: 1 } : { rejected: 'INTERNAL' };
}
