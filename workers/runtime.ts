import { type Config, secretsOf } from '#infra/config/config.ts';
import { openLog } from '#infra/log/log.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { type FollowedModels, openFollowedModels } from '#infra/models/followed-models.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { BACKGROUND_LIMITS, openBackground } from '#infra/process/background.ts';
import { type ChangeTeller, openChangeTeller } from '#infra/redis/change-bell.ts';
import { openDoorbells } from '#infra/redis/doorbell.ts';
import { openReplySender } from '#infra/redis/replies.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Alarm, WorkerDeps } from './actor.ts';

const PAPER_CACHE_BYTES = 64 * 1024 * 1024;

/** What a worker process stands on, whichever actor it runs. Opening it waits for nothing and nobody. */
export type WorkerRuntime = ReturnType<typeof openRuntime>;

export function openRuntime(config: Config, name: string) {
  const { log, flush } = openLog({ level: config.logLevel, name, secrets: secretsOf(config) });
  const metrics = openMetrics({ process: true });
  const mongo = openMongo({ ...config.mongodb, appName: `examhall-${name}` });
  const redis = { redisUrl: config.redis.url, log };
  const [clock, doorbells, replies] = [openServerClock(mongo), openDoorbells(redis), openReplySender(redis)];
  const alarms = metrics.counter('examhall_alarms_total', 'Things an operator should look at', ['name']);
  const background = openBackground({
    ...BACKGROUND_LIMITS,
    dropped: (count) => alarms.add({ name: 'background_dropped' satisfies Alarm }, count),
    failed: (err) => log.warn({ err }, 'background work failed'),
  });
  // Only one actor tells of jobs, and only one asks models: the others need no link for it.
  let jobTeller: ChangeTeller | undefined;
  let followed: FollowedModels | undefined;

  const deps: WorkerDeps = {
    mongo,
    papers: openPapers(mongo, PAPER_CACHE_BYTES),
    now: clock.now,
    log,
    config,
    ring: (queue, commandId) => void doorbells.ring(queue, commandId, 0),
    tellJob(jobId) {
      jobTeller ??= openChangeTeller({ ...redis, of: 'jobs' });
      jobTeller.tell([jobId]);
    },
    models() {
      followed ??= openFollowedModels({ ...redis, settings: config.classifier, mongo, now: clock.now });
      return followed;
    },
    background,
    alarm: (alarmed) => alarms.add({ name: alarmed }),
  };

  return {
    deps,
    clock,
    metrics,
    redis,
    background,
    publishSettled: (commandId: string) => void replies.send(commandId),
    async close(): Promise<void> {
      clock.stop();
      // Before MongoDB: the last usage events are still to be written.
      await followed?.close();
      await Promise.allSettled([doorbells.close(), replies.close(), jobTeller?.close(), mongo.close()]);
      flush();
    },
  };
}

/** Wakes the dispatchers for rows that have committed; only where one can be listening: rings that nobody hears would pile up in Redis. */
export function ringForNotices(deps: WorkerDeps, notices: readonly GradeNotice[]): void {
  const { notification, profile } = deps.config.neighbours;
  if (notification === null) return;
  for (const { recipient, sourceEventId } of notices) {
    if (recipient === 'STUDENT') deps.ring('gradenotices:student', sourceEventId);
    else if (profile !== null) deps.ring('gradenotices:parent', sourceEventId);
  }
}
