import pLimit from 'p-limit';
import type { RunResult } from './life.ts';

/** The slots of one queue in one process. At most `total` runs hold one at a time; the others wait for theirs. */
export interface Slots {
  readonly total: number;
  /** Slots that hold a run. */
  busy(): number;
  /** Slots that no run holds or awaits. */
  free(): number;
  /** Returns the run that holds or awaits a slot for a command. */
  runOf(commandId: string): Promise<RunResult> | undefined;
  /** Returns the ids of commands with such a run. */
  commands(): string[];
  /** Returns all runs that hold or await a slot. */
  runs(): Promise<RunResult>[];
  /** Starts `work` as soon as a slot is free. The run counts for the command until it ends, or until `work` passes another id to `take`. */
  run(commandId: string, work: (take: (otherId: string) => void) => Promise<RunResult>): Promise<RunResult>;
}

/** Opens the slots of a queue. */
export function openSlots(total: number): Slots {
  const limit = pLimit(total);
  const byCommand = new Map<string, Promise<RunResult>>();
  /** A run whose command another run has taken is here alone. */
  const all = new Set<Promise<RunResult>>();

  return {
    total,
    busy: () => limit.activeCount,
    free: () => total - limit.activeCount - limit.pendingCount,
    runOf: (id) => byCommand.get(id),
    commands: () => [...byCommand.keys()],
    runs: () => [...all],

    run(commandId, work) {
      let held = commandId;
      const leave = () => void (byCommand.get(held) === run && byCommand.delete(held));
      const run: Promise<RunResult> = limit(() =>
        work((otherId) => {
          leave();
          held = otherId;
          byCommand.set(held, run);
        }),
      );
      byCommand.set(held, run);
      all.add(run);
      void run.finally(() => all.delete(run)).catch(() => undefined);
      return run.finally(leave);
    },
  };
}
