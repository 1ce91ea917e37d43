import path from 'node:path';
import { rememberedStores } from '#scripts/services/port.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

/**
 * The environment with the MongoDB of the cluster that `npm start` keeps in this checkout, where nothing else is said and one has been
 * started: an operator's first commands work as they stand. Never in production.
 */
export function withLocalCluster(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (env.MONGODB_URL !== undefined || env.NODE_ENV === 'production') return env;
  const { MONGODB_URL } = rememberedStores(path.resolve(ROOT, env.DATA_DIR ?? '.data'));
  return MONGODB_URL === undefined ? env : { ...env, MONGODB_URL };
}
