import type { Neighbours } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';

/** What previews work with. */
export interface PreviewDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  models: Models;
  neighbours: Pick<Neighbours, 'questionBank' | 'usage' | 'wallet'>;
  outboundTimeoutMs: number;
  /** Generated questions are paid for; else nothing of a preview is stored. */
  settles: boolean;
  patience: GenerationPatience;
  log: Pick<Log, 'warn'>;
}

/** Of generations that are paid for (ms). */
export interface GenerationPatience {
  /** For which one that is being made is its maker's; renewed meanwhile, so that a dead maker holds up nobody for longer. */
  leaseMs: number;
  /** For which an equal request waits for it. */
  waitMs: number;
}

export const GENERATION_PATIENCE: GenerationPatience = { leaseMs: 30 * SECOND, waitMs: 25 * SECOND };
