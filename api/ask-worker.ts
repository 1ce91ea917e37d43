import type { Mongo } from '#infra/mongo/connect.ts';
import type { SettledLooks } from '#infra/mongo/mailbox/mailbox.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { ReplyWaiters } from '#infra/redis/replies.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';

/** What a front door needs to have a written command done. */
export interface WorkerAccess {
  mongo: Mongo;
  doorbells: Doorbells;
  replies: ReplyWaiters;
  looks: SettledLooks;
}

/**
 * Rings for a command that is already durable, and waits until its worker has settled it. False: it is late, and the
 * caller answers 202; the command goes on without us. The waiter stands before the ring, so a fast reply is heard;
 * a lost one is made up for by looking into MongoDB.
 */
export async function askWorker(
  access: WorkerAccess,
  command: Pick<Command, '_id' | 'queue' | 'attempts' | 'status'>,
  patience: { timeoutMs: number; signal: AbortSignal },
): Promise<boolean> {
  if (command.status !== 'PENDING') return true;
  const waiter = access.replies.register(command._id);
  void access.doorbells.ring(command.queue, command._id, command.attempts);
  return waiter.settled({ ...patience, isSettled: () => access.looks.isSettled(command.queue, command._id) });
}

/** More than these are found by the worker's poll, which takes them up in bulk anyway. */
const MOST_RINGS = 50;

/** Wakes the workers of commands that are committed already; each ring may be lost. */
export function ringFor(
  { doorbells }: { doorbells: Pick<Doorbells, 'ring'> },
  commands: readonly { queue: Queue; id: string }[],
): void {
  for (const { queue, id } of commands.slice(0, MOST_RINGS)) void doorbells.ring(queue, id, 0);
}
