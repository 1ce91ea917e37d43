import type { TraceLine, Verdict } from './timeline.ts';

/** Lines of a page: by default, and at most. */
export const PAGE_LINES = 200;
export const MAX_PAGE_LINES = 500;

/** The place after a line: its time, and its name for lines of the same time. */
interface Place {
  at: number;
  kind: string;
  id: string;
}

/** Returns the cursor after a line: opaque to clients. */
function cursorAfter({ at, kind, id }: TraceLine): string {
  return Buffer.from(JSON.stringify([at.getTime(), kind, id])).toString('base64url');
}

/** Returns the place of a cursor, or null if no reply contained such a cursor. */
export function readCursor(cursor: string): Place | null {
  try {
    const [at, kind, id, ...rest]: unknown[] = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    const isPlace = Number.isSafeInteger(at) && typeof kind === 'string' && typeof id === 'string' && rest.length === 0;
    return isPlace ? { at: Number(at), kind, id } : null;
  } catch {
    return null;
  }
}

/** Returns the lines after a place, up to `limit`, and the cursor of the next page; null on the last one. */
export function pageOf(
  lines: readonly TraceLine[],
  { after, limit }: { after: Place | null; limit: number },
): { lines: readonly TraceLine[]; nextCursor: string | null } {
  const from = after === null ? 0 : indexAfter(lines, after);
  const page = lines.slice(from, from + limit);
  const last = page.at(-1);
  return { lines: page, nextCursor: last === undefined || from + limit >= lines.length ? null : cursorAfter(last) };
}

/** A line may be gone when the next page is read. The page then continues with the first line of a later time. */
function indexAfter(lines: readonly TraceLine[], { at, kind, id }: Place): number {
  const found = lines.findIndex((line) => line.kind === kind && line.id === id);
  if (found !== -1) return found + 1;
  const later = lines.findIndex((line) => line.at.getTime() > at);
  return later === -1 ? lines.length : later;
}

/** Returns a line as a reply shows it. */
export function lineView(line: TraceLine) {
  const { at, nextAt, endedAt, effect: _effect, ...rest } = line;
  return {
    at: at.toISOString(),
    ...rest,
    nextAt: nextAt?.toISOString() ?? null,
    endedAt: endedAt?.toISOString() ?? null,
  };
}

/** Returns a statement of the summary as one line: what did not happen and why, how often, and the next step. */
export function verdictText({ text, remedy, count }: Verdict): string {
  const more = count === 1 ? '' : ` (and ${count - 1} more)`;
  return `${text}${more}${remedy === null ? '' : `; ${remedy}`}`;
}
