import type { Gateway } from '#scripts/sandbox/gateway.ts';
import type { School } from '#scripts/sandbox/school/school.ts';
import type { Progress } from '#scripts/start/progress.ts';

/** Things that a run of the seed adds. */
export const ADDED_KINDS = [
  'accounts',
  'preferences',
  'announcements',
  'attempts',
  'answers',
  'submissions',
  'essay grades',
  'releases',
  'alerts',
  'classification jobs',
  'generations',
] as const;
export type AddedKind = (typeof ADDED_KINDS)[number];

/** Dependencies of every part of the seed. */
export interface Filling {
  gateway: Gateway;
  progress: Progress;
  school: School;
  /** Services that the cluster serves. */
  served: ReadonlySet<string>;
  /** Counts things that were not there before. */
  add(kind: AddedKind, count?: number): void;
  /** Records a line for the end of the run. */
  note(line: string): void;
}
