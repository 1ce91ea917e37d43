import { createHash } from 'node:crypto';
import { MINUTE } from '#shared/kernel/time.ts';

/**
 * How far a live inbox has come. Rows do not become visible in the order of their times: one whose commit took longer, or that was
 * staged, comes after younger ones, though never later than OVERLAP_MS after its own time. So each look begins that long before
 * the last one, and what was told already is known by its mark. Both travel to the client and back as the event's id, so that any
 * process can go on where another left off.
 */
export interface StreamCursor {
  /** When the last look began, in Unix milliseconds by MongoDB's clock. */
  lookedAt: number;
  /** Marks of the rows that are known, with their times. */
  known: ReadonlyMap<string, number>;
}

/** Longer than the longest way of a row from its `createdAt` to its readers. */
export const OVERLAP_MS = 2 * MINUTE;
/** An id with more marks would not fit a header; a client that was told more within a minute may hear of some twice. */
const MOST_MARKS = 200;
const TIME_DIGITS = 36;

/** The first instant that the next look asks for. */
export function lookFrom(cursor: StreamCursor): Date {
  return new Date(cursor.lookedAt - OVERLAP_MS);
}

/** Six characters of a digest: two rows of one minute and one user share theirs about never. */
export function markOf(notificationId: string): string {
  return createHash('sha256').update(notificationId).digest('base64url').slice(0, 6);
}

/** The rows that are not known yet, in their order, and the cursor once they have been told. Pure. */
export function advance<Row extends { _id: string; createdAt: Date }>(
  cursor: StreamCursor,
  rows: readonly Row[],
  lookedAt: number,
): { fresh: Row[]; cursor: StreamCursor } {
  const known = new Map([...cursor.known].filter(([, at]) => at > lookedAt - OVERLAP_MS));
  const fresh = rows.filter((row) => !cursor.known.has(markOf(row._id)));
  for (const row of rows) known.set(markOf(row._id), row.createdAt.getTime());
  return { fresh, cursor: { lookedAt, known } };
}

/** `lookedAt.mark…`, letters that any header takes. */
export function encodeCursor({ lookedAt, known }: StreamCursor): string {
  const newest = [...known].sort(([, a], [, b]) => b - a).slice(0, MOST_MARKS);
  const marks = newest.map(([mark, at]) => `${mark}${(lookedAt - at).toString(TIME_DIGITS)}`);
  return [lookedAt.toString(TIME_DIGITS), ...marks].join('.');
}

/** null: not an id of ours, or one from the future, or too old to be gone on from. */
export function decodeCursor(text: string, now: number, oldestMs: number): StreamCursor | null {
  if (text.length > 4_096) return null;
  const [head = '', ...marks] = text.split('.');
  const lookedAt = numberOf(head);
  if (lookedAt === null || lookedAt > now + OVERLAP_MS || lookedAt < now - oldestMs) return null;
  const known = new Map<string, number>();
  for (const mark of marks) {
    const age = /^[\w-]{6}-?[0-9a-z]{1,10}$/.test(mark) ? signedNumberOf(mark.slice(6)) : null;
    if (age === null) return null;
    known.set(mark.slice(0, 6), lookedAt - age);
  }
  return { lookedAt, known };
}

function numberOf(text: string): number | null {
  return /^[0-9a-z]{1,10}$/.test(text) ? Number.parseInt(text, TIME_DIGITS) : null;
}

/** A row may be younger than the look that found it. */
function signedNumberOf(text: string): number | null {
  const size = numberOf(text.replace(/^-/, ''));
  if (size === null) return null;
  return text.startsWith('-') ? -size : size;
}
