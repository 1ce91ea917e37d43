import type { ClientSession } from 'mongodb';
import type { DoneStatus } from '#shared/kernel/command.ts';

/** What a commit does beside settling its command; MongoDB commands of this session only, run again on a conflict. */
export type Effects = (session: ClientSession) => Promise<void>;

/**
 * How a run of a command ends; closed, and matched exhaustively where it is settled.
 *
 * Effects and what becomes of the command are one transaction, in which the command is written first: effects that need to
 * know when it will run again, or whether it is dead, read it in their session.
 *
 * - `done`: `after` is called once that has committed, best effort: what it starts may be lost by a crash and must be
 *   allowed to, and it holds up nothing. `as` is the command's status then, DONE unless it has a word of its own.
 * - `rejected`: a rule said no. Nothing was changed, the command's key is free, the sender may try again.
 * - `retry`: this attempt is spent; again after the backoff, dead when none is left. `afterMs` lengthens it.
 * - `snooze`: not its turn yet; the attempt is given back.
 * - `dead`: trying again cannot help; an operator must look.
 *
 * Throwing is `retry`, unless MongoDB or the network is at fault: then it is `snooze`.
 */
export type Outcome =
  | { kind: 'done'; result: unknown; as?: DoneStatus; effects?: Effects; after?: () => void }
  | { kind: 'rejected'; result: unknown }
  | { kind: 'retry'; error: Error; afterMs?: number; effects?: Effects }
  | { kind: 'snooze'; afterMs: number; error?: Error; effects?: Effects }
  | { kind: 'dead'; error: Error; effects?: Effects };
