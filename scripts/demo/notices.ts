import { setTimeout as delay } from 'node:timers/promises';
import type { Receiver } from './receiver.ts';
import type { DemoDeps, Sitting } from './sitting.ts';

/** Notices that must arrive, by source event id, with their recipients in order. */
export function expectedNotices(sittings: readonly Sitting[]): Map<string, readonly string[]> {
  const expected = new Map<string, readonly string[]>();
  for (const { attemptId, student } of sittings) {
    expected.set(`${attemptId}:notification:grade_released`, [student.id]);
    // Without parents on record the row counts as delivered, and nobody is told.
    if (student.parentIds.length > 0) {
      expected.set(`${attemptId}:notification:grade_released_parent`, student.parentIds);
    }
  }
  return expected;
}

/** Waits until all have come, calling `arrived` for each; gives up when for `patienceMs` nothing new came. */
export async function awaitNotices(
  receiver: Receiver,
  count: number,
  options: { patienceMs: number; arrived: () => void },
): Promise<boolean> {
  let seen = 0;
  let lastAt = performance.now();
  while (seen < count) {
    for (; seen < receiver.received.size; seen++) {
      options.arrived();
      lastAt = performance.now();
    }
    if (performance.now() - lastAt > options.patienceMs) return false;
    await delay(50);
  }
  return true;
}

/** A lost reply brings its notice again, a second or so later; without that the repeats could not be told from luck. */
export async function awaitRepeats(receiver: Receiver, patienceMs: number): Promise<void> {
  const until = performance.now() + patienceMs;
  while (repeatsOf(receiver) < receiver.lostReplies() && performance.now() < until) await delay(50);
}

export function repeatsOf(receiver: Receiver): number {
  return [...receiver.received.values()].reduce((sum, notice) => sum + notice.times - 1, 0);
}

/** Everybody was told who had to be, once; a repeat after a lost reply carried the same id and the same recipients. */
export function checkNotices(
  deps: Pick<DemoDeps, 'complain'>,
  receiver: Receiver,
  expected: ReadonlyMap<string, readonly string[]>,
): void {
  for (const [id, recipients] of expected) {
    const got = receiver.received.get(id);
    if (got === undefined) deps.complain(`notice ${id} did not arrive`);
    else if (got.recipients.join() !== recipients.join())
      deps.complain(`notice ${id} went to ${got.recipients.join()}`);
  }
  for (const id of receiver.received.keys()) if (!expected.has(id)) deps.complain(`notice ${id} was not expected`);
  for (const id of receiver.changed) deps.complain(`notice ${id} changed between two deliveries`);
  if (repeatsOf(receiver) < receiver.lostReplies()) deps.complain('a notice whose reply was lost did not come again');
}
