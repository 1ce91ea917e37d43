import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { DEFAULT_SETTING, type ProviderChoice, type ProviderSetting } from '#shared/classifier/provider/setting.ts';
import { newId } from '#shared/kernel/ids.ts';
import { providerSettings, settingChanges } from './collections.ts';

/** Stores the setting that selects a model provider, with its history. */

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
