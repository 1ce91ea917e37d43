import type { Command } from '#shared/kernel/command.ts';
import type { Ending, Kernel } from './kernel.ts';
import type { Outcome } from './outcome.ts';

/** Tells what a committed outcome is to be told of: the log, and front doors that wait for the end of the command. */
export function announce(kernel: Kernel, command: Command, outcome: Outcome): Ending {
  const about = { commandId: command._id, queue: command.queue, subject: command.subject, attempt: command.attempts };
  switch (outcome.kind) {
    case 'snooze':
      if (outcome.error !== undefined) kernel.log.warn({ ...about, err: outcome.error }, 'command put back, unspent');
      return 'snoozed';
    case 'retry':
      if (command.attempts >= command.maxAttempts) return bury(kernel, command, outcome.error);
      kernel.log.warn({ ...about, err: outcome.error }, 'command failed; it will be tried again');
      return 'retried';
    case 'dead':
      return bury(kernel, command, outcome.error);
    case 'rejected':
      kernel.announce(command._id);
      return 'rejected';
    case 'done':
      kernel.announce(command._id);
      outcome.after?.();
      return 'done';
    default:
      return outcome satisfies never;
  }
}

/** A dead command is announced as well: whoever waits for it must not wait for an operator. */
export function bury(kernel: Kernel, command: Command, error?: Error): Ending {
  kernel.announce(command._id);
  kernel.log.error(
    { commandId: command._id, queue: command.queue, subject: command.subject, err: error ?? command.lastError },
    'command is dead: see `examhall dead`',
  );
  return 'dead';
}
