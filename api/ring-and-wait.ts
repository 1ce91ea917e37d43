import type { Mongo } from '#infra/mongo/connect.ts';
import type { SettledPoller } from '#infra/mongo/mailbox/mailbox.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { ReplyWaiters } from '#infra/redis/replies.ts';
import { noteAwaited } from '#infra/trace/scope.ts';
import type { Command, CommandRef } from '#shared/kernel/command.ts';

/** Dependencies by which a front door rings workers and waits for them. */
export interface WorkerAccess {
  mongo: Mongo;
  doorbells: Doorbells;
  replies: ReplyWaiters;
  settledPoller: SettledPoller;
}

/**
 * Rings the worker of a committed command and waits until it has settled. Returns false on timeout; the caller then
 * answers 202 while the command continues. The waiter is registered before the ring, so that a fast reply is not missed.
 * Polling MongoDB covers a lost reply.
 */
export async function ringAndWait(
  access: WorkerAccess,
  command: Pick<Command, '_id' | 'queue' | 'key' | 'attempts' | 'status'>,
  limits: { timeoutMs: number; signal: AbortSignal },
): Promise<boolean> {
  noteAwaited(command._id);
  if (command.status !== 'PENDING') return true;
  const waiter = access.replies.register(command._id);
  void access.doorbells.ring(command, command.attempts);
  return waiter.settled({ ...limits, isSettled: () => access.settledPoller.isSettled(command) });
}

/** Ring for at most this many commands; the worker's poll claims the rest in bulk. */
const MAX_RINGS = 50;

/** Rings the workers of committed commands. A ring may be lost; the workers' poll then finds the command. */
export function ringFor({ doorbells }: { doorbells: Pick<Doorbells, 'ring'> }, commands: readonly CommandRef[]): void {
  for (const command of commands.slice(0, MAX_RINGS)) void doorbells.ring(command, 0);
}
