import {
  type Attempt,
  type AttemptStatus,
  type Away,
  type EventType,
  isOver,
  remainingSeconds,
} from '#shared/attempt/attempt.ts';
import { SECOND } from '#shared/kernel/time.ts';

/** Time without a sign of its student after which an open attempt is silent. */
export const SILENT_AFTER_MS = 90 * SECOND;
/** Times away from which an attempt is flagged. */
export const OFTEN_AWAY = 3;

export const BOARD_FLAGS = ['AWAY', 'SILENT', 'OFTEN_AWAY', 'OVERDUE'] as const;
export type BoardFlag = (typeof BOARD_FLAGS)[number];

/** The fields of an attempt that its row of the board shows. */
export type BoardFacts = Pick<
  Attempt,
  | '_id'
  | 'studentId'
  | 'studentInfo'
  | 'attemptNumber'
  | 'status'
  | 'startedAt'
  | 'deadlineAt'
  | 'submittedAt'
  | 'lastSeenAt'
  | 'lastSavedAt'
  | 'away'
  | 'networkRetries'
  | 'extraMinutes'
  | 'voidedAt'
> & { tally: Pick<Attempt['tally'], 'questions' | 'answers'> };

/**
 * Returns the times away after an event of the student. A page that is hidden already is not hidden again, and one that is shown does not
 * return: browsers report either twice. The store folds by the same rule, inside the update that writes the event.
 */
export function foldAway(away: Away, type: EventType, at: Date): Away {
  if (type === 'TAB_HIDDEN' && away.since === null) return { ...away, count: away.count + 1, since: at };
  if (type === 'FOCUS_RETURNED' && away.since !== null) {
    return { ...away, seconds: away.seconds + secondsBetween(away.since, at), since: null };
  }
  return away;
}

/** Returns the times away of an attempt that ended while its page was hidden. In its next round, the page counts as shown at first. */
export function awayUntil(away: Away, end: Date): Away {
  return foldAway(away, 'FOCUS_RETURNED', end);
}

function secondsBetween(from: Date, to: Date): number {
  return Math.max(0, to.getTime() - from.getTime()) / SECOND;
}

/** The fields of an attempt that decide its flags. */
export type FlagFacts = Pick<BoardFacts, 'status' | 'startedAt' | 'deadlineAt' | 'lastSeenAt' | 'away' | 'voidedAt'>;

/** Returns the flags of an attempt at `now`. Those of an open attempt change as time passes, without any write. */
export function flagsOf(facts: FlagFacts, now: Date): BoardFlag[] {
  const isOpen = facts.status === 'IN_PROGRESS';
  const flags: BoardFlag[] = [];
  if (isAway(facts)) flags.push('AWAY');
  if (isOpen && now.getTime() - lastSeenOf(facts).getTime() >= SILENT_AFTER_MS) flags.push('SILENT');
  if ((facts.away?.count ?? 0) >= OFTEN_AWAY) flags.push('OFTEN_AWAY');
  if (isOpen && isOver(facts.deadlineAt, now)) flags.push('OVERDUE');
  return flags;
}

/** A student whose page stays hidden after the submit is not away. */
function isAway({ status, away }: FlagFacts): boolean {
  return status === 'IN_PROGRESS' && away != null && away.since !== null;
}

/** The start is the first sign of the student. */
function lastSeenOf({ lastSeenAt, startedAt }: FlagFacts): Date {
  return lastSeenAt ?? startedAt;
}

/** Returns one row of the board: what a proctor sees of an attempt. It contains no answer and no score. */
export function boardRow(facts: BoardFacts, now: Date) {
  const { status, submittedAt, deadlineAt, away, tally } = facts;
  const end = status === 'IN_PROGRESS' ? now : (submittedAt ?? now);
  const total = away == null ? 0 : awayUntil(away, end).seconds;
  return {
    attemptId: facts._id,
    studentId: facts.studentId,
    studentInfo: facts.studentInfo === null ? null : (JSON.parse(facts.studentInfo) as Record<string, unknown>),
    attemptNumber: facts.attemptNumber,
    status,
    startedAt: facts.startedAt.toISOString(),
    deadlineAt: deadlineAt?.toISOString() ?? null,
    secondsLeft: status === 'IN_PROGRESS' ? remainingSeconds(deadlineAt, now) : null,
    lastSeenAt: lastSeenOf(facts).toISOString(),
    lastSavedAt: facts.lastSavedAt?.toISOString() ?? null,
    answered: tally.answers,
    questions: tally.questions,
    away: { now: isAway(facts), count: away?.count ?? 0, seconds: Math.floor(total) },
    networkRetries: facts.networkRetries ?? 0,
    extraMinutes: facts.extraMinutes ?? 0,
    voidedAt: facts.voidedAt?.toISOString() ?? null,
    flags: flagsOf(facts, now),
  };
}

/** The place of a row: boards ascend by student, then by number. */
export type BoardPlace = Pick<BoardFacts, 'studentId' | 'attemptNumber'>;

/** Returns the cursor behind a row. It names the student and the number, so that a page begins there whatever has changed. */
export function boardCursor({ studentId, attemptNumber }: BoardPlace): string {
  return Buffer.from(JSON.stringify([studentId, attemptNumber])).toString('base64url');
}

/** Returns the place that a cursor names, or null if no reply contained it. */
export function readBoardCursor(cursor: string): BoardPlace | null {
  try {
    const [studentId, attemptNumber] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[];
    const isPlace = typeof studentId === 'string' && Number.isSafeInteger(attemptNumber);
    return isPlace ? { studentId, attemptNumber: Number(attemptNumber) } : null;
  } catch {
    return null;
  }
}

/** Counts of a board. A voided attempt is in none of them. */
export interface BoardSummary {
  started: number;
  open: number;
  submitted: number;
  graded: number;
  away: number;
  silent: number;
  overdue: number;
}

const COUNT_OF_STATUS = { IN_PROGRESS: 'open', SUBMITTED: 'submitted', GRADED: 'graded' } as const satisfies Record<
  AttemptStatus,
  keyof BoardSummary
>;

export function emptySummary(): BoardSummary {
  return { started: 0, open: 0, submitted: 0, graded: 0, away: 0, silent: 0, overdue: 0 };
}

/** Adds an attempt with these flags to the counts. */
export function addToSummary(
  summary: BoardSummary,
  { status, voidedAt }: Pick<BoardFacts, 'status' | 'voidedAt'>,
  flags: readonly BoardFlag[],
): void {
  if (voidedAt != null) return;
  summary.started += 1;
  summary[COUNT_OF_STATUS[status]] += 1;
  if (flags.includes('AWAY')) summary.away += 1;
  if (flags.includes('SILENT')) summary.silent += 1;
  if (flags.includes('OVERDUE')) summary.overdue += 1;
}
