import { openStreamPlaces } from '#api/http/live-stream.ts';
import type { Route } from '#api/route.ts';
import type { Mount } from '#api/service.ts';
import { openFollowedModels } from '#infra/models/followed-models.ts';
import { openChangeBell } from '#infra/redis/change-bell.ts';
import { type ClassifierDeps, GENERATION_PATIENCE } from './deps.ts';
import { jobRoutes } from './job-routes.ts';
import { previewRoutes } from './previews.ts';
import { providerRoutes } from './providers.ts';

/** Streams of jobs that the process holds open, and those of one caller. */
const STREAMS = 2_000;
const STREAMS_PER_ACTOR = 10;

export const mountClassifier: Mount = ({ config, log, mongo, now, redis, doorbells, draining, atEnd }) => {
  const { classifier: settings, neighbours, outboundTimeoutMs } = config;
  const models = openFollowedModels({ settings, mongo, redisUrl: redis.redisUrl, now, log });
  const jobBell = openChangeBell({ ...redis, of: 'jobs' });
  atEnd(models.close);
  atEnd(jobBell.close);
  return classifierRoutes({
    jobs: {
      mongo,
      now,
      doorbells,
      jobBell,
      log,
      questionBank: neighbours.questionBank,
      jobAttempts: settings.worker.maxAttempts,
      streams: { places: openStreamPlaces({ perActor: STREAMS_PER_ACTOR, inAll: STREAMS }), draining },
    },
    previews: {
      mongo,
      now,
      models,
      neighbours,
      outboundTimeoutMs,
      settles: settings.settles,
      log,
      patience: GENERATION_PATIENCE,
    },
    providers: {
      mongo,
      now,
      models,
      allowedOrigins: settings.allowedOrigins,
      adminServiceToken: config.internalServiceToken,
    },
  });
};

/** The AI classifier's routes: jobs and previews for teachers, the choice of a provider for admins. */
export function classifierRoutes({ jobs, previews, providers }: ClassifierDeps): Route[] {
  return [...jobRoutes(jobs), ...previewRoutes(previews), ...providerRoutes(providers)];
}
