import type { Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Command, CommandStatus } from '#shared/kernel/command.ts';
import type { Neighbours } from '#testing/neighbours/neighbours.ts';

/** A command whose worker is killed at every point of its run, and a check of the state after another worker has finished it. */
export interface CrashScenario {
  name: string;
  actor: string;
  status: CommandStatus;
  /** Minimum number of points in a run. Fewer would mean that the suite no longer observes the run. */
  leastPoints: number;
  /** Returns whether no worker needs to run the command any more. Default: it is settled. A recurring command never settles. */
  isOver?: (command: Command) => boolean;
  /** True if `post` waits for the open transactions of dead workers. The suite ends them, before the server's own time limit does. */
  waitsForTransactions?: boolean;
  /** Minimum and maximum of the attempts spent in the end. Default: 1 and 2. */
  spent?: readonly [number, number];
  post(mongo: Mongo, world: { neighbours: Neighbours }): Promise<Command>;
  check(t: Test, world: { mongo: Mongo; neighbours: Neighbours }, command: Command): Promise<void>;
}
