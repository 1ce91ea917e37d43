import type { DueCommand } from '#infra/mongo/mailbox/due.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import type { RunResult } from './life.ts';
import type { Slots } from './slots.ts';
import { turnsByOrganization } from './turns.ts';

/** The order in which the commands of one queue get its slots. */
export interface Order {
  /** Begins a command whose ring arrived, or another one that comes before it. */
  ring(rung: CommandRef): Promise<RunResult>;
  /** Begins a command that `listed` or `choose` returned. */
  begin(command: DueCommand): Promise<RunResult>;
  /** Returns up to `free` commands that an earlier read has left over. */
  listed(free: number): DueCommand[];
  /** Chooses up to `free` commands of a read, longest due first. */
  choose(due: readonly DueCommand[], free: number): DueCommand[];
  /** Discards what earlier reads have left over: another process works through the same backlog. */
  forget(): void;
}

interface ByAge {
  readonly slots: Slots;
  /** Claims and runs a command. */
  readonly run: (command: CommandRef) => Promise<RunResult>;
}

/** Returns the order by age: the command that has been due longest is first. */
export function byAge({ slots, run }: ByAge): Order {
  /** Commands of the last read that this process has not begun. A server may have to sort the whole backlog for each read. */
  const left = new Map<string, DueCommand>();

  function begin(command: CommandRef): Promise<RunResult> {
    left.delete(command._id);
    return slots.runOf(command._id) ?? slots.run(command._id, () => run(command));
  }

  return {
    ring: begin,
    begin,
    listed: (free) => [...left.values()].slice(0, free),
    choose(due, free) {
      // The stored session of a lost worker is ended at once or read again: later that worker may use it for another command.
      for (const command of due.slice(free)) if (!command.abandoned) left.set(command._id, command);
      return due.slice(0, free);
    },
    forget: () => left.clear(),
  };
}

interface ByTurns extends ByAge {
  /** Slots that one organization may hold. */
  readonly most: number;
  /** Reads due commands; none after a failure. */
  readonly readDue: () => Promise<DueCommand[]>;
}

/** Returns the order that goes round the organizations, by `turnsByOrganization`. */
export function byTurns({ slots, run, most, readDue }: ByTurns): Order {
  const turns = turnsByOrganization(most);

  /** Rings arrive in the order of the requests, so one organization could fill the slots with them: a ring begins the command whose turn it is. */
  function ring(rung: CommandRef): Promise<RunResult> {
    const already = slots.runOf(rung._id);
    if (already !== undefined) return already;

    return slots.run(rung._id, async (take) => {
      const due = await readDue();
      const [next] = turns.take(due, 1);
      // Without a due command, the one of the ring may be claimable all the same: our clock may be behind that of its sender. Otherwise each
      // organization with due commands holds its share, and the poll runs them later.
      if (next === undefined && (due.length > 0 || turns.isRunning(rung._id))) return 'not-ours';
      const command = next ?? rung;
      take(command._id);
      return run(command).finally(() => turns.end(command._id));
    });
  }

  return {
    ring,
    // A command that was taken in its turn must run here, even if a ring for it waits: that ring finds another one.
    begin: (command) => slots.run(command._id, () => run(command)).finally(() => turns.end(command._id)),
    listed: () => [],
    choose: (due, free) => turns.take(due, free),
    forget: () => undefined,
  };
}
