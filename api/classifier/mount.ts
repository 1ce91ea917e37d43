import type { Mount } from '#api/ground.ts';
import { openStreamPlaces } from '#api/http/live-stream.ts';
import { openFollowedModels } from '#infra/models/followed-models.ts';
import { openChangeBell } from '#infra/redis/change-bell.ts';
import { GENERATION_PATIENCE } from './preview-deps.ts';
import { classifierRoutes } from './routes.ts';

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
