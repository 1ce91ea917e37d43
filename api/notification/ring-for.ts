import type { Queue } from '#shared/kernel/command.ts';
import type { NotificationDeps } from './deps.ts';

/** More than these are found by the worker's poll, which takes them up in bulk anyway. */
const MOST_RINGS = 50;

/** Wakes the workers of commands that are committed already; each ring may be lost. */
export function ringFor(
  { doorbells }: Pick<NotificationDeps, 'doorbells'>,
  commands: readonly { queue: Queue; id: string }[],
): void {
  for (const { queue, id } of commands.slice(0, MOST_RINGS)) void doorbells.ring(queue, id, 0);
}
