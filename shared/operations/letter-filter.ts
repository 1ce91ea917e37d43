import type { Queue } from '#shared/kernel/command.ts';

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
export interface FilterFault {
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
