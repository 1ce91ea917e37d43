import path from 'node:path';
import { rememberedStores } from '#scripts/services/port.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

/**
 * Returns the environment with the addresses of the stores of the cluster that `npm start` has started in this checkout, so that an operator's first
 * commands need no configuration. Returns `env` unchanged in production, if it names a MongoDB, or if no cluster was started here.
 */
export function withLocalCluster(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const isNamed = env.MONGODB_URL !== undefined || env.MONGODB_URL_FILE !== undefined;
  if (isNamed || env.NODE_ENV === 'production') return env;
  const { MONGODB_URL, REDIS_URL } = rememberedStores(path.resolve(ROOT, env.DATA_DIR ?? '.data'));
  if (MONGODB_URL === undefined) return env;
  return { ...(REDIS_URL === undefined ? {} : { REDIS_URL }), ...env, MONGODB_URL };
}
