import type { FollowedModels } from '#infra/models/followed-models.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Now } from '#shared/kernel/time.ts';

/** What the routes of model providers work with. */
export interface ProviderDeps {
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  models: Pick<FollowedModels, 'status' | 'changed'>;
  /** Origins beside the official ones to which a key may go. */
  allowedOrigins: readonly string[];
  /** By which the admin service proves itself; undefined = it cannot. */
  adminServiceToken: string | undefined;
}
