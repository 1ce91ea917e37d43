import type { Route } from '#api/route.ts';
import type { Mount } from '#api/service.ts';
import { modelMetrics } from '#infra/metrics/model-metrics.ts';
import { openFollowedModels } from '#infra/models/followed-models.ts';
import { openSettledPoller } from '#infra/mongo/mailbox/mailbox.ts';
import { openChangeFeed } from '#infra/redis/change-feed.ts';
import { type ClassifierDeps, GENERATION_TIMING } from './deps.ts';
import { jobRoutes } from './job-routes.ts';
import { previewRoutes } from './previews.ts';
import { providerRoutes } from './providers.ts';

export const mountClassifier: Mount = ({
  config,
  log,
  metrics,
  mongo,
  now,
  redis,
  doorbells,
  replies,
  streams,
  schemas,
  atEnd,
}) => {
  const { classifier: settings, neighbours, outboundTimeoutMs } = config;
  const observer = modelMetrics(metrics, now);
  const models = openFollowedModels({ settings, mongo, redisUrl: redis.redisUrl, schemas, now, log, observer });
  const jobChanges = openChangeFeed({ ...redis, of: 'jobs' });
  atEnd(models.close);
  atEnd(jobChanges.close);
  return classifierRoutes({
    jobs: {
      mongo,
      now,
      doorbells,
      jobChanges,
      models,
      log,
      questionBank: neighbours.questionBank,
      jobAttempts: settings.worker.maxAttempts,
      openJobLimits: settings.openJobLimits,
      streams,
    },
    previews: {
      mongo,
      now,
      models,
      neighbours,
      outboundTimeoutMs,
      settles: settings.settles,
      settlementWorker: settings.settlementWorkerEnabled
        ? { doorbells, replies, settledPoller: openSettledPoller(mongo), waitMs: settings.settlementWaitMs }
        : null,
      log,
      timing: GENERATION_TIMING,
    },
    providers: {
      mongo,
      now,
      models,
      trusted: settings,
      adminServiceToken: config.internalServiceToken,
    },
  });
};

/** Returns the AI classifier's routes: jobs and previews for teachers, the choice of a provider for admins. */
export function classifierRoutes({ jobs, previews, providers }: ClassifierDeps): Route[] {
  return [...jobRoutes(jobs), ...previewRoutes(previews), ...providerRoutes(providers)];
}
