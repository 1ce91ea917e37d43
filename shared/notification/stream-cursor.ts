import { createHash } from 'node:crypto';
import { MINUTE } from '#shared/kernel/time.ts';

/**
 * Position of a live inbox. Rows do not become visible in the order of `createdAt`: a row that was staged or committed slowly
 * can appear after younger rows. It appears at most OVERLAP_MS after its `createdAt`. Each poll therefore starts OVERLAP_MS
 * before the last poll, and marks identify the rows that were already sent. The cursor is the id of each event, so that a
 * client can resume on any process.
 */
export interface StreamCursor {
  /** Start of the last poll, in Unix milliseconds by MongoDB's clock. */
  polledAt: number;
  /** Marks of the rows that were already sent, with their `createdAt` in Unix milliseconds. */
  known: ReadonlyMap<string, number>;
}

/** Longer than the longest delay between a row's `createdAt` and its visibility. */
export const OVERLAP_MS = 2 * MINUTE;
/** Maximum of marks in an id, which must fit a header. A client that resumes after more rows may receive some of them twice. */
const MAX_MARKS = 200;
const TIME_DIGITS = 36;

/** Returns the instant after which the next poll reads rows. */
export function pollFrom(cursor: StreamCursor): Date {
  return new Date(cursor.polledAt - OVERLAP_MS);
}

/** Returns six characters of a digest. A collision between rows of one user within OVERLAP_MS is practically impossible. */
export function markOf(notificationId: string): string {
  return createHash('sha256').update(notificationId).digest('base64url').slice(0, 6);
}

/** Returns the rows that were not sent yet, in their order, and the cursor after they are sent. Pure. */
export function advance<Row extends { _id: string; createdAt: Date }>(
  cursor: StreamCursor,
  rows: readonly Row[],
  polledAt: number,
): { fresh: Row[]; cursor: StreamCursor } {
  const known = new Map([...cursor.known].filter(([, at]) => at > polledAt - OVERLAP_MS));
  const fresh = rows.filter((row) => !cursor.known.has(markOf(row._id)));
  for (const row of rows) known.set(markOf(row._id), row.createdAt.getTime());
  return { fresh, cursor: { polledAt, known } };
}

/** Encodes a cursor as `polledAt.mark…`, in characters that are valid in a header. */
export function encodeCursor({ polledAt, known }: StreamCursor): string {
  const newest = [...known].sort(([, a], [, b]) => b - a).slice(0, MAX_MARKS);
  const marks = newest.map(([mark, at]) => `${mark}${(polledAt - at).toString(TIME_DIGITS)}`);
  return [polledAt.toString(TIME_DIGITS), ...marks].join('.');
}

/** Returns the cursor, or null if the text is not a cursor, is from the future or is older than `oldestMs`. */
export function decodeCursor(text: string, now: number, oldestMs: number): StreamCursor | null {
  if (text.length > 4_096) return null;
  const [head = '', ...marks] = text.split('.');
  const polledAt = numberOf(head);
  if (polledAt === null || polledAt > now + OVERLAP_MS || polledAt < now - oldestMs) return null;
  const known = new Map<string, number>();
  for (const mark of marks) {
    const age = /^[\w-]{6}-?[0-9a-z]{1,10}$/.test(mark) ? signedNumberOf(mark.slice(6)) : null;
    if (age === null) return null;
    known.set(mark.slice(0, 6), polledAt - age);
  }
  return { polledAt, known };
}

function numberOf(text: string): number | null {
  return /^[0-9a-z]{1,10}$/.test(text) ? Number.parseInt(text, TIME_DIGITS) : null;
}

/** Parses an age, which is negative if the row is younger than the poll that found it. */
function signedNumberOf(text: string): number | null {
  const size = numberOf(text.replace(/^-/, ''));
  if (size === null) return null;
  return text.startsWith('-') ? -size : size;
}
