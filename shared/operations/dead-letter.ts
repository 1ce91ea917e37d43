import type { Command, CommandError, Queue } from '#shared/kernel/command.ts';

/** Chooses dead letters. */
export interface LetterFilter {
  queue?: Queue;
  /** Fingerprint of the error. */
  cause?: string;
  subject?: string;
  /** They died at this time or later. */
  since?: Date;
  /** They died before this time. */
  until?: Date;
}

/** The fields of a filter as flags, a query or a form contain them. An absent field chooses any letter, and so does null. */
export type GivenFilter = { readonly [Field in keyof LetterFilter]?: string | null | undefined };

/** The part of a filter that is invalid. */
interface FilterFault {
  fault: 'queue' | 'time';
}

/** Returns the filter of these fields, or its first fault. `timeOf` returns null for a text that is no time. */
export function readLetterFilter(
  { queue, cause, subject, since, until }: GivenFilter,
  { queues, timeOf }: { queues: readonly Queue[]; timeOf: (text: string) => Date | null },
): LetterFilter | FilterFault {
  const known = queues.find((name) => name === queue);
  if (queue != null && known === undefined) return { fault: 'queue' };
  const [from, before] = [since, until].map((text) => (text == null ? undefined : timeOf(text)));
  if (from === null || before === null) return { fault: 'time' };
  return {
    ...(known === undefined ? {} : { queue: known }),
    ...(cause == null ? {} : { cause }),
    ...(subject == null ? {} : { subject }),
    ...(from === undefined ? {} : { since: from }),
    ...(before === undefined ? {} : { until: before }),
  };
}

type ShownLetter = Pick<
  Command,
  | '_id'
  | 'queue'
  | 'subject'
  | 'status'
  | 'letter'
  | 'attempts'
  | 'maxAttempts'
  | 'replays'
  | 'createdAt'
  | 'settledAt'
  | 'lastError'
>;

/** Returns a dead command as a reply shows it: without its body, which may contain a student's text or the id of a person. */
export function letterView(command: ShownLetter) {
  const { _id: id, queue, subject, status, letter, attempts, maxAttempts, replays } = command;
  const { createdAt, settledAt, lastError } = command;
  const error = lastError === null ? null : errorView(lastError);
  return {
    id,
    queue,
    subject,
    status,
    letter: letter ?? null,
    attempts,
    maxAttempts,
    replays,
    createdAt: createdAt.toISOString(),
    settledAt: settledAt?.toISOString() ?? null,
    error,
  };
}

function errorView({ fingerprint, message, at }: CommandError) {
  return { fingerprint, message, at: at.toISOString() };
}

/** Returns the cursor after a letter: opaque to clients. */
export function letterCursor({ queue, after }: { queue: Queue; after: string }): string {
  return Buffer.from(JSON.stringify([queue, after])).toString('base64url');
}

/** Returns the place of a cursor, or null if no reply contained such a cursor. */
export function readLetterCursor(cursor: string, queues: readonly Queue[]): { queue: Queue; after: string } | null {
  try {
    const [queue, after, ...rest]: unknown[] = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    const known = queues.find((name) => name === queue);
    return known !== undefined && typeof after === 'string' && rest.length === 0 ? { queue: known, after } : null;
  } catch {
    return null;
  }
}
