import { readFileSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../..');

/**
 * The environment with the MongoDB of the cluster that `npm start` keeps in this checkout, where nothing else is said and one has been
 * started: an operator's first commands work as they stand. Never in production.
 */
export function withLocalCluster(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (env.MONGODB_URL !== undefined || env.NODE_ENV === 'production') return env;
  const port = localPort(path.resolve(ROOT, env.DATA_DIR ?? '.data'));
  // Whatever its replica set is called.
  return port === null ? env : { ...env, MONGODB_URL: `mongodb://127.0.0.1:${port}/?directConnection=true` };
}

function localPort(folder: string): number | null {
  try {
    const ports: unknown = JSON.parse(readFileSync(path.join(folder, 'run/ports.json'), 'utf8'));
    const port = typeof ports === 'object' && ports !== null && 'mongodb' in ports ? ports.mongodb : null;
    return typeof port === 'number' ? port : null;
  } catch {
    // None was started here.
    return null;
  }
}
