import type { DoorContext } from '#api/service.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';
import type { AttemptDeps } from './deps.ts';
import { openAttemptStores } from './stores.ts';

/** Opens what the routes of the attempt service share in a process: its stores with their memories, and its workers. */
export function openAttemptDeps({ config, mongo, now, log, doorbells, replies }: DoorContext): AttemptDeps {
  return {
    ...openAttemptStores(mongo, config.attempt.startBudgetMs),
    now,
    doorbells,
    replies,
    settings: config.attempt,
    commandAttempts: config.worker.maxAttempts,
    wanted: openWanted(mongo, now, log),
  };
}
