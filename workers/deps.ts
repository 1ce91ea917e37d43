import type { Config } from '#infra/config/config.ts';
import type { Log } from '#infra/log/log.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Background } from '#infra/process/background.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Now } from '#shared/kernel/time.ts';

/** What an operator should see in `/metrics`. */
export type Alarm = 'analytics_failed' | 'background_dropped' | 'notice_misconfigured';

/** What every actor is made of. */
export interface WorkerDeps {
  mongo: Mongo;
  papers: Papers;
  /** MongoDB's time. */
  now: Now;
  log: Log;
  config: Config;
  /** Wakes another actor for a command that is already committed; may be lost, never throws. */
  ring: (queue: Queue, commandId: string) => void;
  /** Wakes the streams that follow this job; may be lost, never throws. */
  tellJob: (jobId: string) => void;
  /** Whoever can be asked to classify; opened by the first actor that wants it. */
  models: () => Models;
  /** Best-effort work that must hold no slot. */
  background: Background;
  /** Counts something that an operator should see in `/metrics`. */
  alarm: (name: Alarm) => void;
}
