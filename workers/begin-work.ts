import { VERSION } from '#infra/config/version.ts';
import { answerDoorbell } from '#infra/redis/doorbell-listener.ts';
import type { Actor } from './actor.ts';
import type { Ground } from './ground.ts';
import { startHeartbeat } from './heartbeat.ts';
import type { Kernel } from './kernel.ts';
import { openWorker } from './worker.ts';

/** What runs from the moment at which the database is usable. */
export interface Working {
  heart: { stop(): Promise<void> };
  /** Claims nothing more; resolves when the last run has ended. */
  drain(timeoutMs: number): Promise<unknown>;
}

/** The worker's loop, its doorbells and its heartbeat. */
export function beginWork({ deps, clock, redis }: Ground, kernel: Kernel, name: string, actor: Actor): Working {
  const { mongo, log, config } = deps;
  const { queues, concurrency = config.worker.concurrency, pollMs = config.worker.pollIntervalMs } = actor;
  const worker = openWorker(kernel, actor, { concurrency, pollMs, now: clock.now });
  const listeners = queues.map((queue) =>
    answerDoorbell({ ...redis, queue, concurrency }, async (id) => void (await worker.knock(queue, id))),
  );
  const heart = startHeartbeat(mongo, {
    workerId: kernel.workerId,
    actor: name,
    queues,
    version: VERSION,
    slots: concurrency * queues.length,
    busy: worker.busy,
  });
  log.info({ queues, concurrency }, 'worker is ready');
  return {
    heart,
    drain: (timeoutMs) => Promise.all([worker.drain(), ...listeners.map((listener) => listener.close(timeoutMs))]),
  };
}
