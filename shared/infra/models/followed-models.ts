import type { ClassifierSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import { findProviderSetting } from '#infra/mongo/classifier/providers.ts';
import { openUsageRecorder } from '#infra/mongo/classifier/usage-recorder.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { withTimeout } from '#infra/process/background.ts';
import { openChangeFeed } from '#infra/redis/change-feed.ts';
import { openSharedCells } from '#infra/redis/shared-cells.ts';
import type { CircuitState } from '#shared/classifier/provider/circuit.ts';
import { DEFAULT_SETTING, type ProviderSetting, selectionOf } from '#shared/classifier/provider/setting.ts';
import type { Target } from '#shared/classifier/provider/target.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import type { Models } from '#shared/classifier/tasks/envelope.ts';
import { HOUR, type Now, SECOND } from '#shared/kernel/time.ts';
import { type ModelRuntime, openModels } from './open-models.ts';
import { openTaskModels, type PerformParts } from './perform-task.ts';

/** The models of one process. They follow the stored setting automatically. */
export interface FollowedModels extends Models, Pick<ModelRuntime, 'status'> {
  /** Call this after a save. It switches this process at once and wakes the other processes through Redis. */
  changed(setting: ProviderSetting): void;
  /** Aborts the running tasks with this cancellation key in every process. A process that Redis does not reach goes on. */
  cancel(cancellationKey: string): void;
  close(): Promise<void>;
}

/** Receives each provider call and the state of the circuits, for metrics. Neither function throws. */
export interface ModelObserver {
  called(event: UsageEvent): void;
  circuitUsed(target: Target, state: CircuitState): void;
}

/** Poll interval. It bounds the delay after which a process that missed the wake-up applies a change. */
const POLL_MS = 5 * SECOND;
/** Maximum wait of a request for the first read of the setting. */
const FIRST_READ_MS = 5 * SECOND;
/** Maximum time at close to write pending usage events. */
const LAST_WRITES_MS = SECOND;
/** Redis deletes a circuit that was not updated for this time. */
const CIRCUIT_LIFETIME_MS = 24 * HOUR;

/**
 * Opens models that use the stored setting, or the environment's if none is enabled. The setting is read at once, every
 * POLL_MS and on each wake-up from Redis. While MongoDB is unavailable, the last setting remains in force. Until the first
 * read succeeds, requests reject with the driver's error. Usage events are stored in MongoDB, circuits in Redis.
 */
export function openFollowedModels(parts: {
  settings: ClassifierSettings;
  mongo: Mongo;
  redisUrl: string;
  schemas: PerformParts['schemas'];
  now: Now;
  log: Log;
  pollMs?: number;
  observer?: ModelObserver;
}): FollowedModels {
  const { settings, mongo, redisUrl, schemas, now, log, pollMs = POLL_MS, observer } = parts;
  const usage = openUsageRecorder(mongo, log);
  const circuits = {
    purpose: 'circuits of model providers',
    prefix: 'examhall:ai:circuit',
    lifetimeMs: CIRCUIT_LIFETIME_MS,
  };
  const shared = openSharedCells({ redisUrl, log, ...circuits });
  const changes = openChangeFeed({ redisUrl, log, of: 'models' });
  const models = openModels({
    settings,
    now,
    log,
    recordUsage(event) {
      usage.record(event);
      observer?.called(event);
    },
    circuitUsed: (target, state) => observer?.circuitUsed(target, state),
    shared,
    selection: null,
  });
  /** The setting in force. undefined: not read yet. null: never saved. */
  let held: ProviderSetting | null | undefined;
  let saves = 0;

  function apply(setting: ProviderSetting | null): void {
    const isNew = setting?.version !== held?.version || setting?.updatedAt.getTime() !== held?.updatedAt.getTime();
    held = setting;
    if (isNew) models.select(selectionOf(setting));
  }

  let reading: Promise<void> | undefined;
  let isCalledAgain = false;
  async function readOnce(): Promise<void> {
    const savesBefore = saves;
    const setting = await findProviderSetting(mongo);
    // A read that started before a save can end after it and return the old setting.
    if (saves === savesBefore) apply(setting);
  }
  /** Reads the setting; concurrent calls share one read. Rejects if MongoDB is unavailable. */
  function read(): Promise<void> {
    isCalledAgain = reading !== undefined;
    reading ??= readOnce().finally(() => {
      reading = undefined;
      // A wake-up during the read may concern a newer setting than the one found.
      if (isCalledAgain) readInBackground();
    });
    return reading;
  }
  function readInBackground(): void {
    read().catch(() => undefined);
  }

  /** Waits for the first read of the setting, because the environment may name a different provider. */
  async function known(): Promise<void> {
    if (held === undefined) await withTimeout(read(), FIRST_READ_MS, tooLate);
  }

  readInBackground();
  const timer = setInterval(readInBackground, pollMs);
  timer.unref();
  const unsubscribe = changes.listen(DEFAULT_SETTING, readInBackground);

  const { perform } = openTaskModels({
    async ask(task, terms, signal) {
      await known();
      return models.ask(task, terms, signal);
    },
    listen: changes.listen,
    schemas,
    now,
  });
  return {
    perform,
    async status() {
      await known();
      return models.status();
    },
    changed(setting) {
      saves++;
      // After two concurrent saves, the call for the later version may come first.
      if (setting.version > (held?.version ?? 0)) apply(setting);
      changes.notify([DEFAULT_SETTING]);
    },
    cancel: (cancellationKey) => changes.notify([cancellationKey]),
    async close() {
      clearInterval(timer);
      unsubscribe();
      await Promise.allSettled([models.close(), usage.close(LAST_WRITES_MS), shared.close(), changes.close()]);
    },
  };
}

/** Returns an error that callers treat as an outage, because the provider is still unknown. */
function tooLate(): Error {
  return Object.assign(new Error('reading the setting of the model provider timed out'), { code: 'ETIMEDOUT' });
}
