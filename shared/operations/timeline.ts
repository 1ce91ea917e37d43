import { type Effect, REASONS, type Reason, type ReasonCode, type Standing } from './reasons.ts';

/** Kinds of lines, in the order of lines of the same time: a cause comes before its effect. */
export const LINE_KINDS = [
  'account',
  'login',
  'session',
  'attempt',
  'event',
  'release',
  'job',
  'batch',
  'generation',
  'hold',
  'command',
  'notice',
  'notification-event',
  'suppression',
  'fan-out',
  'notification',
  'delivery',
  'delivery-attempt',
  'act',
] as const;
export type LineKind = (typeof LINE_KINDS)[number];

/** One line of a trace. It holds ids, states and times, and never an answer, a score, a text, a name or an e-mail. */
export interface TraceLine {
  at: Date;
  kind: LineKind;
  id: string;
  state: string;
  /** The queue of a command, the type of an event, the channel of a delivery; null if the kind states everything. */
  what: string | null;
  /** The id that the line concerns beside its own: an attempt, a recipient, an account. */
  about: string | null;
  attempt: { n: number; max: number } | null;
  /** The earliest time of the next attempt, or null. */
  nextAt: Date | null;
  /** The time at which it was settled, ended or last changed, or null. */
  endedAt: Date | null;
  /** Id of the request that caused it, or null if none is stored. */
  requestId: string | null;
  reason: Reason | null;
  /** Beginning of its verdict: what did not happen. Null for a line that is never part of a verdict. */
  effect: Effect | null;
  /** Number of lines that were folded into this one; 1 for a single line. */
  count: number;
}

type Optional = 'what' | 'about' | 'attempt' | 'nextAt' | 'endedAt' | 'requestId' | 'reason' | 'effect' | 'count';

/** Returns a line whose absent fields are null. */
export function traceLine(line: Omit<TraceLine, Optional> & Partial<Pick<TraceLine, Optional>>): TraceLine {
  return {
    at: line.at,
    kind: line.kind,
    id: line.id,
    state: line.state,
    what: line.what ?? null,
    about: line.about ?? null,
    attempt: line.attempt ?? null,
    nextAt: line.nextAt ?? null,
    endedAt: line.endedAt ?? null,
    requestId: line.requestId ?? null,
    reason: line.reason ?? null,
    effect: line.effect ?? null,
    count: line.count ?? 1,
  };
}

const PLACE = new Map<LineKind, number>(LINE_KINDS.map((kind, place) => [kind, place]));

/** Returns the lines in time order, each once. Lines of the same time are in the order of LINE_KINDS, then as they were read. */
export function timelineOf(lines: readonly TraceLine[]): TraceLine[] {
  const byName = new Map(lines.map((line) => [`${line.kind} ${line.id}`, line]));
  return [...byName.values()].sort(
    (a, b) => a.at.getTime() - b.at.getTime() || (PLACE.get(a.kind) ?? 0) - (PLACE.get(b.kind) ?? 0),
  );
}

/** Folds neighbouring events of one type into one line, so that 300 saves do not hide the submit. */
export function folded(lines: readonly TraceLine[]): TraceLine[] {
  const result: TraceLine[] = [];
  for (const line of lines) {
    const last = result.at(-1);
    const isSame =
      last?.kind === 'event' && line.kind === 'event' && last.what === line.what && last.about === line.about;
    if (last !== undefined && isSame && line.reason === null) {
      result[result.length - 1] = { ...last, endedAt: line.at, count: last.count + 1 };
    } else result.push(line);
  }
  return result;
}

/** One statement of the summary: what did not happen, why, and the next step. */
export interface Verdict {
  standing: Standing;
  code: ReasonCode;
  text: string;
  remedy: string | null;
  /** Number of lines with this statement. */
  count: number;
  /** Id of the first of these lines. */
  id: string;
}

const RANK: Readonly<Record<Standing, number>> = { stuck: 0, waits: 1, runs: 2, dropped: 3 };
/** Statements of a summary: with its first line and its last, it fits into five lines. */
export const MAX_VERDICTS = 4;

/** The statements of a summary, and the number of those that it leaves out. */
export interface Summary {
  verdicts: Verdict[];
  moreVerdicts: number;
}

/**
 * Returns the statements of a summary: what needs an operator first, then what waits, runs and was dropped; in each rank the earliest
 * cause first. Lines of one reason and one effect are counted in one statement.
 */
export function summaryOf(lines: readonly TraceLine[]): Summary {
  const found = new Map<string, Verdict>();
  for (const { reason, effect, id } of lines) {
    if (reason === null || effect === null) continue;
    const name = `${reason.code} ${effect}`;
    const known = found.get(name);
    if (known !== undefined) {
      known.count += 1;
      continue;
    }
    const { code, text, remedy } = reason;
    found.set(name, { standing: REASONS[code], code, text: `${effect}: ${text}`, remedy, count: 1, id });
  }
  const all = [...found.values()].sort((a, b) => RANK[a.standing] - RANK[b.standing]);
  return { verdicts: all.slice(0, MAX_VERDICTS), moreVerdicts: Math.max(0, all.length - MAX_VERDICTS) };
}

/** Lines of a page by default. */
export const PAGE_LINES = 200;

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
