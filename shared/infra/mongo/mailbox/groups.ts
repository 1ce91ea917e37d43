import type { Mongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { inGroups } from '#infra/process/in-groups.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { type Claim, type Claimant, claimCommand, claimCommands, MAX_CLAIMS, type WantedCommand } from './claim.ts';
import type { CommandOf } from './commands.ts';
import { type NextState, type RunEnd, settleCommand, settleCommands, undoClaim } from './settle.ts';

/**
 * Claims and settlements of one queue in one process. Those that are due at about the same time share MongoDB commands: a server
 * handles one command for eight rows much faster than eight commands. A single one is sent at once, by itself.
 */
export interface MailboxGroups<Q extends Queue> {
  /** Claims a command as `claimCommand` does. If it rejects, the command may be claimed all the same. */
  claim(wanted: WantedCommand): Promise<Claim<Q>>;
  /**
   * Settles a command as `settleCommand` does, without a transaction. If another command of the group had lost its lease, it may
   * throw LeaseLost for a command that it has settled. The caller then reads which case is its own, as after a lost reply.
   */
  settle(command: CommandOf<Q>, next: NextState<Q>): Promise<void>;
}

/**
 * Time for which commands are claimed one by one after a failed group, in milliseconds. One command that an open transaction has
 * locked would otherwise fail the claims of its whole group again and again.
 */
const APART_MS = 60_000;
/** Maximum number of settlements in one MongoDB command. */
const MAX_ENDS = 100;

/** Opens the groups of a queue for the claims of one worker. */
export function openMailboxGroups<Q extends Queue>(mongo: Mongo, claimant: Claimant<Q>): MailboxGroups<Q> {
  let apartUntil = 0;
  const claimInGroup = inGroups(MAX_CLAIMS, async (wanted: readonly WantedCommand[]) => {
    try {
      return await claimCommands(mongo, wanted, claimant);
    } catch (error) {
      if (wanted.length === 1) throw error;
      apartUntil = performance.now() + APART_MS;
      // After an outage each caller undoes its own claim. After any other error the callers know that nothing is claimed.
      const { queue, workerId } = claimant;
      if (!isOutage(error)) await Promise.allSettled(wanted.map(({ id }) => undoClaim(mongo, { queue, id, workerId })));
      throw error;
    }
  });
  const settleInGroup = inGroups(MAX_ENDS, async (ends: readonly RunEnd<Q>[]) => {
    if (ends.length === 1) return [false];
    const settled = await settleCommands(mongo, claimant.queue, ends).catch((error: unknown) => {
      if (isOutage(error)) throw error;
      return false;
    });
    return ends.map(() => settled);
  });
  return {
    claim(wanted) {
      if (performance.now() < apartUntil) return claimCommand(mongo, { ...wanted, ...claimant });
      return claimInGroup(wanted);
    },
    async settle(command, next) {
      // After a group with a lost lease or a refused end, each command is settled by itself: one must not harm the others.
      if (!(await settleInGroup({ command, next }))) await settleCommand(mongo, command, next);
    },
  };
}
