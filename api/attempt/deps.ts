import type { AttemptSettings } from '../../shared/infra/config/attempt-settings.ts';
import type { Heads } from '../../shared/infra/mongo/attempt/heads.ts';
import type { Papers } from '../../shared/infra/mongo/attempt/papers.ts';
import type { Now } from '../../shared/kernel/clock.ts';
import type { WorkerAccess } from '../ask-worker.ts';

/** What the attempt service's front door works with. */
export interface AttemptDeps extends WorkerAccess {
  papers: Papers;
  heads: Heads;
  /** MongoDB's time. */
  now: Now;
  settings: AttemptSettings;
  commandAttempts: number;
}
