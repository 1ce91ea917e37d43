import type { Alarm } from '#shared/generated/operations.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { span } from './reasons.ts';

/** One piece of work that held the event loop of a process. */
export interface HeldLoop {
  heldMs: number;
  /** Its end. */
  at: Date;
}

/** The longest recent one of a process. */
export interface BusyLoop extends HeldLoop {
  /** Process type, host and process id. */
  process: string;
}

/** As in the alert on the metric: half the time limit of a liveness probe, and a quarter of a lease. */
export const BUSY_FROM_MS = 2_500;
/** Age from which a piece of work no longer counts. */
export const BUSY_COUNTS_MS = 5 * MINUTE;

/** Returns the longer of two that still count; null if neither does. */
export function longestHeld<Held extends HeldLoop>(known: Held | null, next: Held | null, now: number): Held | null {
  const counting = [known, next].filter((held) => held !== null && now - held.at.getTime() < BUSY_COUNTS_MS);
  return counting.reduce((one, other) => ((other?.heldMs ?? 0) > (one?.heldMs ?? 0) ? other : one), null);
}

/** Returns an alarm for each process that one piece of work held for long, the longest first. A process may be listed several times. */
export function busyAlarms(loops: readonly BusyLoop[], now: number): Alarm[] {
  const longest = [...Map.groupBy(loops, ({ process }) => process).values()].flatMap((own) => {
    const held = own.reduce<BusyLoop | null>((one, other) => longestHeld(one, other, now), null);
    return held === null || held.heldMs < BUSY_FROM_MS ? [] : [held];
  });
  return longest
    .sort((one, other) => other.heldMs - one.heldMs)
    .map(({ process, heldMs, at }): Alarm => {
      const ago = span(Math.max(0, now - at.getTime()));
      const text = `${process}: one piece of work held its event loop for ${(heldMs / SECOND).toFixed(1)} s, ${ago} ago`;
      const remedy = `read its log at ${at.toISOString()}: the request or the run that ended then is the cause`;
      return { kind: 'busy-loop', about: process, heldMs: Math.round(heldMs), text, remedy };
    });
}
