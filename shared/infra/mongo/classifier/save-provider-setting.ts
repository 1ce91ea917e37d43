import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import { DEFAULT_SETTING, type ProviderChoice, type ProviderSetting } from '#shared/classifier/provider/setting.ts';
import { newId } from '#shared/kernel/ids.ts';
import { providerSettings, settingChanges } from './collections.ts';

/** Who saves, and when. */
export interface SavedBy {
  actorId: string;
  organizationId: string;
  at: Date;
}

/** Stores a choice as the next version, and in the same transaction who changed what. */
export async function saveProviderSetting(mongo: Mongo, choice: ProviderChoice, by: SavedBy): Promise<ProviderSetting> {
  const save = () => inTransaction(mongo, FRONT_DOOR_BUDGET_MS, (session) => saveIn(mongo, session, choice, by));
  try {
    return await save();
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
    // Two first saves: the other one is there now, and ours is the one after it.
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
  // Whoever wrote since our read makes this a conflict, and the transaction begins anew.
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
