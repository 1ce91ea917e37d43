import type { Mount } from '#api/service.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import { attemptRoutes } from './routes.ts';
import { openAttemptStores } from './stores.ts';

export const mountAttempt: Mount = ({ config, mongo, now, log, doorbells, replies }) =>
  attemptRoutes({
    ...openAttemptStores(mongo, config.attempt.startBudgetMs),
    now,
    doorbells,
    replies,
    settings: config.attempt,
    commandAttempts: config.worker.maxAttempts,
    wanted: openWanted(mongo, now, log),
  });
