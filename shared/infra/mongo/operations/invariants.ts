import type { Mongo } from '#infra/mongo/connect.ts';
import { ATTEMPT_INVARIANTS } from './invariants/attempts.ts';
import { CLASSIFIER_INVARIANTS } from './invariants/classifier.ts';
import { COMMAND_INVARIANTS } from './invariants/commands.ts';
import type { Invariant } from './invariants/invariant.ts';
import { NOTIFICATION_INVARIANTS } from './invariants/notifications.ts';

/** Every promise of the product that stored rows can show, in the order of the report. */
export const INVARIANTS: readonly Invariant[] = [
  ...ATTEMPT_INVARIANTS,
  ...COMMAND_INVARIANTS,
  ...NOTIFICATION_INVARIANTS,
  ...CLASSIFIER_INVARIANTS,
];

/** Result of the check of one promise. */
export interface InvariantReport {
  name: string;
  /** Number of rows that break it. */
  count: number;
  /** Ids of the first of these rows. */
  examples: string[];
  /** Number of rows that were read. */
  checked: number;
  /** True if there are more rows than were read. */
  isCut: boolean;
  remedy: string;
  /** Reason why the check could not read its rows; null if it has read them. */
  unread: string | null;
}

const EXAMPLES = 3;

/**
 * Checks every promise, one after the other, to leave the connections to the requests of students. It reads without a transaction, so a
 * change in progress may seem broken. What is found is read again, and only rows that are broken both times are reported.
 */
export async function checkInvariants(mongo: Mongo, now: number): Promise<InvariantReport[]> {
  const reports: InvariantReport[] = [];
  for (const invariant of INVARIANTS) reports.push(await check(mongo, now, invariant));
  return reports;
}

async function check(mongo: Mongo, now: number, { name, remedy, find }: Invariant): Promise<InvariantReport> {
  try {
    const { checked, broken, isCut } = await find(mongo, now);
    const again = broken.length === 0 ? new Set<string>() : new Set((await find(mongo, now)).broken);
    const confirmed = broken.filter((id) => again.has(id));
    const examples = confirmed.slice(0, EXAMPLES);
    return { name, count: confirmed.length, examples, checked, isCut, remedy, unread: null };
  } catch (error) {
    // A check that exceeds its time limit must not hide the results of the others.
    const unread = error instanceof Error ? error.message : String(error);
    return { name, count: 0, examples: [], checked: 0, isCut: false, remedy, unread };
  }
}
