import type { ClientSession } from 'mongodb';
import type { Log } from '#infra/log/log.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { openBackground } from '#infra/process/background.ts';
import { DEFAULT_SETTING, type ProviderChoice, type ProviderSetting } from '#shared/classifier/provider/setting.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { newId } from '#shared/kernel/ids.ts';
import { providerSettings, settingChanges, usageEvents } from './collections.ts';

/** Stores the setting that selects a model provider, with its history, and one usage event for each provider call. */

/** Returns the stored setting, or null if it was never saved. */
export function findProviderSetting(mongo: Mongo): Promise<ProviderSetting | null> {
  return providerSettings(mongo).findOne({ _id: DEFAULT_SETTING }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** The actor that saves, and the time. */
interface SavedBy {
  actorId: string;
  organizationId: string;
  at: Date;
}

/**
 * Stores a choice as the next version and, in the same transaction, a record of the change and its actor. Returns the new
 * setting.
 */
export async function saveProviderSetting(mongo: Mongo, choice: ProviderChoice, by: SavedBy): Promise<ProviderSetting> {
  const save = () => inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => saveIn(mongo, session, choice, by));
  try {
    return await save();
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
    // Two first saves raced. The other one is stored now, and ours becomes the next version.
    return save();
  }
}

async function saveIn(
  mongo: Mongo,
  session: ClientSession,
  choice: ProviderChoice,
  { actorId, organizationId, at }: SavedBy,
): Promise<ProviderSetting> {
  const limits = { session, maxTimeMS: QUERY_LIMIT_MS };
  const before = await providerSettings(mongo).findOne({ _id: DEFAULT_SETTING }, limits);
  const version = (before?.version ?? 0) + 1;
  const fields = { ...choice, version, updatedAt: at, updatedBy: actorId };
  if (before === null) await providerSettings(mongo).insertOne({ _id: DEFAULT_SETTING, ...fields }, limits);
  // If another save was committed since our read, this write conflicts and the transaction starts again.
  else await providerSettings(mongo).updateOne({ _id: DEFAULT_SETTING }, { $set: fields }, limits);
  await settingChanges(mongo).insertOne(
    {
      _id: newId(at.getTime()),
      settingId: DEFAULT_SETTING,
      version,
      at,
      actorId,
      organizationId,
      before: before === null ? null : choiceIn(before),
      after: choice,
    },
    limits,
  );
  return { _id: DEFAULT_SETTING, ...fields };
}

function choiceIn({ provider, model, baseUrl, apiKeyRef, enabled }: ProviderChoice): ProviderChoice {
  return { provider, model, baseUrl, apiKeyRef, enabled };
}

/** Stores usage events in the background, without delaying the provider calls that they record. */
interface UsageRecorder {
  /** Returns at once and never throws. If too many events are waiting, the event is lost and counted in a warning. */
  record(event: UsageEvent): void;
  /** Waits at most `limitMs` for the waiting events to be stored. */
  close(limitMs: number): Promise<void>;
}

/** Events that may wait to be stored. They are small and contain no prompt. */
const MAX_WAITING = 2_000;

/**
 * Opens a recorder of usage events. Events that end during a write are stored together by the next one. A slow or unavailable MongoDB
 * costs events, never an answer.
 */
export function openUsageRecorder(mongo: Mongo, log: Pick<Log, 'warn'>): UsageRecorder {
  let waiting: (UsageEvent & { _id: string })[] = [];
  let storing: typeof waiting = [];

  function drop(count: number): void {
    log.warn({ count }, 'usage events dropped: queue full or process stopping');
  }
  const line = openBackground({
    concurrency: 1,
    maxWaiting: 2,
    dropped() {
      drop(storing.length + waiting.length);
      waiting = [];
    },
    failed(err) {
      log.warn({ err, count: storing.length }, 'storing usage events failed; events dropped');
      storing = [];
    },
  });
  async function storeWaiting(): Promise<void> {
    storing = waiting;
    waiting = [];
    await usageEvents(mongo).insertMany(storing, { ordered: false, maxTimeMS: QUERY_LIMIT_MS });
    storing = [];
  }
  return {
    record(event) {
      if (waiting.length >= MAX_WAITING) return drop(1);
      waiting.push({ _id: newId(event.createdAt.getTime()), ...event });
      // The first waiting event requests a write. It begins after the one that runs, and stores all events that wait by then.
      if (waiting.length === 1) line.run(storeWaiting);
    },
    close: async (limitMs) => void (await line.end(limitMs)),
  };
}
