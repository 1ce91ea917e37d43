import { type Config, secretsOf } from '#infra/config/config.ts';
import { type LogDestination, openLog } from '#infra/log/log.ts';
import type { FollowedModels, openFollowedModels } from '#infra/models/followed-models.ts';
import { openAttemptReads } from '#infra/mongo/attempt/attempts.ts';
import { openGradingPapers } from '#infra/mongo/attempt/corrections.ts';
import { completeExam, openExamNotes } from '#infra/mongo/attempt/exams.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import { openBindingReleases } from '#infra/mongo/attempt/release.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import { openServerClock } from '#infra/mongo/server-clock.ts';
import { watchAnswers } from '#infra/neighbours/unanswering.ts';
import { BACKGROUND_CONCURRENCY, openBackground } from '#infra/process/background.ts';
import { type ChangePublisher, openChangePublisher } from '#infra/redis/change-feed.ts';
import { openDoorbells } from '#infra/redis/doorbell.ts';
import { openReplySender } from '#infra/redis/replies.ts';
import { openTracing } from '#infra/trace/spans.ts';
import { noticeCommand } from '#shared/attempt/commands.ts';
import { type GradeNotice, isEarly } from '#shared/attempt/notices.ts';
import { ALARMS, type Alarm, type WorkerDeps } from './actor.ts';
import { openHealth, openWorkerMetrics } from './worker-metrics.ts';

const PAPER_CACHE_BYTES = 64 * 1024 * 1024;

/** The connections and services of a worker process, the same for every actor. Opening it does not wait for any connection. */
export type WorkerRuntime = Awaited<ReturnType<typeof openRuntime>>;

/** Opens the connections and services of a worker process. Does not wait for any connection. `logTo` receives the log. */
export async function openRuntime(given: Config, name: string, logTo?: LogDestination) {
  const { log, flush } = openLog({
    level: given.logLevel,
    name,
    secrets: secretsOf(given),
    ...(logTo === undefined ? {} : { destination: logTo }),
  });
  await openTracing();
  const mongo = openMongo({ ...given.mongodb, appName: `examhall-${name}` });
  const redis = { redisUrl: given.redis.url, log };
  const health = openHealth(mongo);
  const metrics = await openWorkerMetrics(given, mongo, {
    mongodb: health.isUp,
    redis: () => doorbells.isConnected(),
  });
  const { ringLost } = metrics;
  const doorbells = openDoorbells({ ...redis, ...(ringLost === undefined ? {} : { lost: ringLost }) });
  const [clock, replies] = [openServerClock(mongo), openReplySender(redis)];
  const { config, unanswering } = watchAnswers(metrics.config, clock.now);
  const alarms = metrics.counter('examhall_alarms_total', "Events that need an operator's attention", ['name']);
  // Prometheus finds no increase in a counter that only appears with its first alarm.
  for (const name of ALARMS) alarms.add({ name }, 0);
  const background = openBackground({
    concurrency: BACKGROUND_CONCURRENCY,
    maxWaiting: given.worker.backgroundWaiting,
    dropped: (count) => alarms.add({ name: 'background_dropped' satisfies Alarm }, count),
    failed: (err) => log.warn({ err }, 'background work failed'),
  });
  // Only one actor publishes job changes, and only one calls models. The other actors open no link for them.
  let jobPublisher: ChangePublisher | undefined;
  let followed: Promise<FollowedModels> | undefined;

  const papers = openPapers(mongo, PAPER_CACHE_BYTES);
  const deps: WorkerDeps = {
    mongo,
    papers,
    findAttempt: openAttemptReads(mongo),
    bindingRelease: openBindingReleases(mongo),
    gradingPaper: openGradingPapers(mongo, papers),
    completeExam: openExamNotes(mongo, completeExam),
    now: clock.now,
    log,
    config,
    ring: (command) => void doorbells.ring(command, 0),
    publishJobChange(jobId) {
      jobPublisher ??= openChangePublisher({ ...redis, of: 'jobs' });
      jobPublisher.publish([jobId]);
    },
    models() {
      const observer = metrics.models === undefined ? {} : { observer: metrics.models(clock.now) };
      followed ??= loadModels({ ...redis, settings: config.classifier, mongo, now: clock.now, ...observer });
      const opened = followed;
      return { perform: async (request, signal) => (await opened).perform(request, signal) };
    },
    background,
    wanted: openWanted(mongo, clock.now, log),
    alarm: (alarmed) => alarms.add({ name: alarmed }),
  };

  return {
    deps,
    clock,
    health,
    metrics,
    redis,
    background,
    unanswering,
    publishSettled: (commandId: string) => void replies.send(commandId),
    async close(): Promise<void> {
      clock.stop();
      // Close it before MongoDB, because it still writes the last usage events.
      await (await followed)?.close();
      await Promise.allSettled([doorbells.close(), replies.close(), jobPublisher?.close(), mongo.close()]);
      flush();
    },
  };
}

/** Loads the clients of the model providers with their HTTP client and their checks of answers, and opens them. */
async function loadModels(parts: Omit<Parameters<typeof openFollowedModels>[0], 'schemas'>): Promise<FollowedModels> {
  const models = await import('#infra/models/followed-models.ts');
  const { loadSchemas } = await import('#infra/schema/validator.ts');
  return models.openFollowedModels({ ...parts, schemas: loadSchemas() });
}

/**
 * Rings for notices that have committed and are due at `now`. Skips a queue whose neighbour is not configured: no worker listens
 * there, and its rings would accumulate in Redis. The poll finds a notice that is due later.
 */
export function ringForNotices(deps: WorkerDeps, notices: readonly GradeNotice[], now: Date): void {
  const { notification, profile } = deps.config.neighbours;
  if (notification === null) return;
  for (const notice of notices) {
    if (isEarly(notice, now)) continue;
    if (notice.recipient === 'STUDENT' || profile !== null) deps.ring(noticeCommand(notice));
  }
}
