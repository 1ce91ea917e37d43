import type { ClientSession } from 'mongodb';

/** What a commit does beside settling its command; MongoDB commands of this session only, run again on a conflict. */
export type Effects = (session: ClientSession) => Promise<void>;

/**
 * How a run of a command ends; closed, and matched exhaustively where it is settled.
 *
 * - `done`: the effects and the command's end are one transaction. `after` is called once that has committed, best
 *   effort: what it starts may be lost by a crash and must be allowed to, and it holds up nothing.
 * - `rejected`: a rule said no. Nothing was changed, the command's key is free, the sender may try again.
 * - `retry`: this attempt is spent; again after the backoff, dead when none is left. `afterMs` lengthens it.
 * - `snooze`: not its turn yet; the attempt is given back.
 * - `dead`: trying again cannot help; an operator must look.
 *
 * Throwing is `retry`, unless MongoDB or the network is at fault: then it is `snooze`.
 */
export type Outcome =
  | { kind: 'done'; result: unknown; effects?: Effects; after?: () => void }
  | { kind: 'rejected'; result: unknown }
  | { kind: 'retry'; error: Error; afterMs?: number }
  | { kind: 'snooze'; afterMs: number; error?: Error; effects?: Effects }
  | { kind: 'dead'; error: Error };
