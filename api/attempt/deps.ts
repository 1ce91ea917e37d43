import type { WorkerAccess } from '#api/ask-worker.ts';
import type { AttemptSettings } from '#infra/config/settings.ts';
import type { Heads } from '#infra/mongo/attempt/attempts.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { Now } from '#shared/kernel/time.ts';

/** What the attempt service's front door works with. */
export interface AttemptDeps extends WorkerAccess {
  papers: Papers;
  heads: Heads;
  /** MongoDB's time. */
  now: Now;
  settings: AttemptSettings;
  commandAttempts: number;
}
