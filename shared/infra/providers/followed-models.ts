import type { Models } from '../../classifier/model-task.ts';
import { DEFAULT_SETTING, type ProviderSetting, selectionOf } from '../../classifier/provider-setting.ts';
import { HOUR, type Now, SECOND } from '../../kernel/clock.ts';
import type { ClassifierSettings } from '../config/classifier-settings.ts';
import type { Log } from '../log/log.ts';
import { findProviderSetting } from '../mongo/classifier/find-provider-setting.ts';
import { openUsageRecorder } from '../mongo/classifier/usage-recorder.ts';
import type { Mongo } from '../mongo/connect.ts';
import { openChangeBell } from '../redis/change-bell.ts';
import { openSharedCells } from '../redis/shared-cells.ts';
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
 * whenever Redis tells of a change. While MongoDB is away the last one stands. Usage events go to MongoDB, circuits to Redis.
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
  let version = 0;
  /** The setting has been looked at, or found not to be there. */
  let isKnown = false;

  function take(setting: ProviderSetting | null): void {
    // A look that began before a save may end after it.
    if (setting === null || setting.version <= version) return;
    version = setting.version;
    models.select(selectionOf(setting));
  }

  let looking: Promise<void> | undefined;
  function look(): Promise<void> {
    looking ??= findProviderSetting(mongo)
      .then(
        (setting) => {
          isKnown = true;
          take(setting);
        },
        () => undefined,
      )
      .finally(() => {
        looking = undefined;
      });
    return looking;
  }

  async function known(): Promise<void> {
    if (!isKnown) await bounded(look(), FIRST_LOOK_MS);
  }

  void look();
  const timer = setInterval(() => void look(), lookEveryMs);
  timer.unref();
  const deafen = bell.listen(DEFAULT_SETTING, () => void look());

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
      take(setting);
      bell.wake([DEFAULT_SETTING]);
    },
    async close() {
      clearInterval(timer);
      deafen();
      await Promise.allSettled([models.close(), usage.close(LAST_WRITES_MS), shared.close(), bell.close()]);
    },
  };
}

async function bounded(work: Promise<void>, ms: number): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, ms);
  await Promise.race([work, late.promise]);
  clearTimeout(timer);
}
