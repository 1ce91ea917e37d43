import type { ClassifierSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import { findProviderSetting, openUsageRecorder } from '#infra/mongo/classifier/providers.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { bounded } from '#infra/process/background.ts';
import { openChangeBell } from '#infra/redis/change-bell.ts';
import { openSharedCells } from '#infra/redis/shared-cells.ts';
import { DEFAULT_SETTING, type ProviderSetting, selectionOf } from '#shared/classifier/provider/setting.ts';
import type { Models } from '#shared/classifier/tasks/task.ts';
import { HOUR, type Now, SECOND } from '#shared/kernel/time.ts';
import { type ModelRuntime, openModels } from './open-models.ts';

/** The models of one process, who follow the stored setting by themselves. */
export interface FollowedModels extends Models, Pick<ModelRuntime, 'status'> {
  /** After a save: switches this process now, and the others in a moment. */
  changed(setting: ProviderSetting): void;
  close(): Promise<void>;
}

/** By which a process that heard nothing notices a change. */
const LOOK_EVERY_MS = 5 * SECOND;
/** An ask of a process that has not seen the setting yet does not wait longer than this for it. */
const FIRST_LOOK_MS = 5 * SECOND;
/** For events that are not written yet when the process ends. */
const LAST_WRITES_MS = SECOND;
/** A circuit of which nobody heard for so long is forgotten. */
const CIRCUIT_KEPT_MS = 24 * HOUR;

/**
 * Models as the stored setting says, else as the environment does: the setting is read at once, every few seconds and
 * whenever Redis tells of a change. While MongoDB is away the last one stands; a process that has seen none asks nobody
 * and throws what the driver does. Usage events go to MongoDB, circuits to Redis.
 */
export function openFollowedModels(parts: {
  settings: ClassifierSettings;
  mongo: Mongo;
  redisUrl: string;
  now: Now;
  log: Log;
  lookEveryMs?: number;
}): FollowedModels {
  const { settings, mongo, redisUrl, now, log, lookEveryMs = LOOK_EVERY_MS } = parts;
  const usage = openUsageRecorder(mongo, log);
  const circuits = { purpose: 'circuits of model providers', prefix: 'examhall:ai:circuit', keepMs: CIRCUIT_KEPT_MS };
  const shared = openSharedCells({ redisUrl, log, ...circuits });
  const bell = openChangeBell({ redisUrl, log, of: 'providers' });
  const models = openModels({ settings, now, log, recordUsage: usage.record, shared, selection: null });
  /** What is in force; undefined = nobody has looked yet, null = none was ever saved. */
  let held: ProviderSetting | null | undefined;
  let saves = 0;

  function take(setting: ProviderSetting | null): void {
    const isNew = setting?.version !== held?.version || setting?.updatedAt.getTime() !== held?.updatedAt.getTime();
    held = setting;
    if (isNew) models.select(selectionOf(setting));
  }

  let looking: Promise<void> | undefined;
  let isCalledAgain = false;
  async function lookOnce(): Promise<void> {
    const savesBefore = saves;
    const setting = await findProviderSetting(mongo);
    // A look that began before a save may end after it.
    if (saves === savesBefore) take(setting);
  }
  /** Rejects when MongoDB is away. */
  function look(): Promise<void> {
    isCalledAgain = looking !== undefined;
    looking ??= lookOnce().finally(() => {
      looking = undefined;
      // What was told while we looked may be newer than what we found.
      if (isCalledAgain) lookBehind();
    });
    return looking;
  }
  function lookBehind(): void {
    look().catch(() => undefined);
  }

  /** Whoever asks before the setting was seen waits for it: the environment's provider may be quite another one. */
  async function known(): Promise<void> {
    if (held === undefined) await bounded(look(), FIRST_LOOK_MS, tooLate);
  }

  lookBehind();
  const timer = setInterval(lookBehind, lookEveryMs);
  timer.unref();
  const deafen = bell.listen(DEFAULT_SETTING, lookBehind);

  return {
    async ask(task, about, signal) {
      await known();
      return models.ask(task, about, signal);
    },
    async status() {
      await known();
      return models.status();
    },
    changed(setting) {
      saves++;
      // Of two saves at once the later one may have been told first.
      if (setting.version > (held?.version ?? 0)) take(setting);
      bell.wake([DEFAULT_SETTING]);
    },
    async close() {
      clearInterval(timer);
      deafen();
      await Promise.allSettled([models.close(), usage.close(LAST_WRITES_MS), shared.close(), bell.close()]);
    },
  };
}

/** Late is what an outage is: nobody knows whom to ask. */
function tooLate(): Error {
  return Object.assign(new Error('the setting of the model provider was not to be had in time'), { code: 'ETIMEDOUT' });
}
