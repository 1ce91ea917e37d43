import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';

/** A dispatcher of notices that the demo adds to a cluster which has none that may deliver. */
export interface Dispatcher {
  stop(): Promise<void>;
}

export interface Stores {
  MONGODB_URL: string;
  REDIS_URL?: string;
}

/**
 * Where the running cluster's stores are: MONGODB_URL, else the ports that `npm start` remembers in its data folder.
 * Undefined when neither says. Without Redis the dispatcher lives on its poll.
 */
export function storesOf(root: string, env: NodeJS.ProcessEnv): Stores | undefined {
  if (env.MONGODB_URL !== undefined) return env.MONGODB_URL === '' ? undefined : { MONGODB_URL: env.MONGODB_URL };
  try {
    const run = path.resolve(root, env.DATA_DIR || '.data', 'run');
    // Only while a supervisor holds the folder does anybody listen on its ports.
    if (!existsSync(path.join(run, 'supervisor.json'))) return undefined;
    const ports: Record<string, unknown> = JSON.parse(readFileSync(path.join(run, 'ports.json'), 'utf8'));
    const { mongodb, redis } = ports;
    if (!Number.isInteger(mongodb)) return undefined;
    return {
      MONGODB_URL: `mongodb://127.0.0.1:${mongodb}/?directConnection=true`,
      ...(Number.isInteger(redis) ? { REDIS_URL: `redis://127.0.0.1:${redis}` } : {}),
    };
  } catch {
    return undefined;
  }
}

/**
 * One more `gradenotices` worker, which delivers to the cluster and asks the demo for parents: a process type scales by itself, so
 * the cluster need not be started again. The demo refuses to name parents of other students, so their notices go on
 * waiting, unspent. Its token comes from the environment, as the cluster's does.
 */
export function addDispatcher(
  root: string,
  stores: Stores,
  neighbours: { clusterUrl: string; profileUrl: string },
): Dispatcher {
  const child = spawn(process.execPath, ['workers/main.ts', 'gradenotices'], {
    cwd: root,
    env: {
      INTERNAL_SERVICE_TOKEN: DEVELOPMENT_DEFAULTS.INTERNAL_SERVICE_TOKEN,
      ...process.env,
      ...stores,
      NOTIFICATION_SERVICE_URL: neighbours.clusterUrl,
      PROFILE_SERVICE_URL: neighbours.profileUrl,
      WORKER_CONCURRENCY: '16',
      LOG_LEVEL: 'silent',
    },
    detached: true,
    stdio: 'ignore',
  });
  return {
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}
