import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';
import { freePort, rememberedStores } from '#scripts/services/port.ts';
import { type LossyIntake, openLossyIntake } from './lossy-intake.ts';

/** A cluster that the demo has started for itself. */
export interface OwnCluster {
  url: string;
  /** What stands between its outbox and its notification service. */
  intake: LossyIntake;
  /** Stops every process of it and deletes its data. */
  stop(): Promise<void>;
}

const LAST_LINES = 30;
const SHARED_MEMORY = '/dev/shm';
const ENOUGH_BYTES = 2 * 1024 ** 3;

/**
 * Runs `npm start`'s own script on a free port and a data folder that is thrown away, with `standInUrl` as its profile
 * service and question bank. Its notices go to its own notification service over a line that loses replies. MONGODB_URL and REDIS_URL count as they do there, with a database of the demo's own.
 * @throws Error with the cluster's last words when it does not come up
 */
export async function startOwnCluster(deps: {
  root: string;
  standInUrl: string;
  say: (line: string) => void;
}): Promise<OwnCluster> {
  const folder = await mkdtemp(path.join(await scratch(), 'examhall-demo-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const intake = await openLossyIntake(url);
  const child = spawn(process.execPath, ['scripts/dev.ts'], {
    cwd: deps.root,
    env: {
      ...process.env,
      NODE_ENV: 'development',
      PORT: String(port),
      DATA_DIR: folder,
      LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
      MONGODB_DATABASE: 'examhall_demo',
      NOTIFICATION_SERVICE_URL: intake.url,
      PROFILE_SERVICE_URL: deps.standInUrl,
      QUESTION_BANK_SERVICE_URL: deps.standInUrl,
    },
    // A group of its own, or Ctrl-C in a terminal would reach it before the demo can stop it in order.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    }
    await intake.close();
    await rm(folder, { recursive: true, force: true });
  };
  const tail: string[] = [];
  let isReady = false;
  try {
    await new Promise<void>((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          tail.push(line);
          if (tail.length > LAST_LINES) tail.shift();
          if (line.startsWith('ready http')) {
            isReady = true;
            resolve();
          } else if (!isReady && line.startsWith('start ')) deps.say(line);
        });
      }
      child.on('error', reject);
      child.on('exit', () => reject(new Error(`the cluster did not start:\n${tail.join('\n')}`)));
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, intake, stop };
}

/** In memory where there is room: data that is deleted at the end need not wait for a disk. TMPDIR decides otherwise. */
async function scratch(): Promise<string> {
  if (process.env.TMPDIR !== undefined) return tmpdir();
  try {
    const { bavail, bsize } = await statfs(SHARED_MEMORY);
    return bavail * bsize > ENOUGH_BYTES ? SHARED_MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

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
  const folder = path.resolve(root, env.DATA_DIR || '.data');
  // Only while a supervisor holds the folder does anybody listen on its ports.
  if (!existsSync(path.join(folder, 'run', 'supervisor.json'))) return undefined;
  const { MONGODB_URL, ...rest } = rememberedStores(folder);
  return MONGODB_URL === undefined ? undefined : { MONGODB_URL, ...rest };
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
