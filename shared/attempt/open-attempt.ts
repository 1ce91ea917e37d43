import type { Rejection } from '#shared/kernel/errors.ts';
import type { Attempt } from './attempt.ts';
import { MAX_START_KEY_ALIASES } from './limits.ts';
import type { StartAccess } from './start-body.ts';
import { activeLink } from './start-rules.ts';

/**
 * What a start does when the student has an open attempt at the exam. It is handed back, and the new key becomes an
 * alias of it while there is room, so that the retry of this very request can never start a second attempt. Only a
 * start through an active link other than the attempt's own is refused: it asks for a new attempt.
 */
export function reuseOpenAttempt(
  open: Pick<Attempt, '_id' | 'accessLinkId' | 'startKeys'>,
  request: { access: StartAccess; startKey: string; now: Date },
): { reuse: true; storeAlias: boolean } | Rejection {
  const link = activeLink(request.access, request.now);
  if (link !== null && link.id !== open.accessLinkId) {
    return { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: open._id } };
  }
  const known = open.startKeys.includes(request.startKey);
  // The first key is the start's own; only the others are aliases.
  const hasRoom = open.startKeys.length - 1 < MAX_START_KEY_ALIASES;
  return { reuse: true, storeAlias: !known && hasRoom };
}
