import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { checkInvariants } from '#infra/mongo/operations/invariants.ts';
import type { Failure } from '#scripts/sandbox/neighbours/failure.ts';
import type { StandIns } from '#scripts/sandbox/neighbours/open-stand-ins.ts';
import { freePort, rememberedStores } from '#scripts/start/services/port.ts';

export type OwnCluster = Awaited<ReturnType<typeof startOwnCluster>>;

const ROOT = path.resolve(import.meta.dirname, '../../..');
/** Lines of output that an error quotes if the cluster does not start. */
const LAST_LINES = 30;
/** The service stores the event, and the sender gets 503 in place of its reply, so that it repeats the event a second later. */
const LOST_REPLIES: Failure = { lose: true, answer: 503, retryAfter: 1, every: 25 };
const DATABASE = 'examhall_demo';
const SHARED_MEMORY = '/dev/shm';
/** Free space that shared memory needs to be chosen for the data folder. */
const ENOUGH_BYTES = 2 * 1024 ** 3;

/**
 * Runs the script of `npm start` on a free port and a temporary data folder, with the stand-ins as profile service and question bank.
 * Notices reach its notification service through the stand-in, which loses every 25th reply. MONGODB_URL and REDIS_URL are used as in `npm start`; the
 * database is `examhall_demo`.
 * @throws Error with the last lines of output if the cluster does not start
 */
export async function startOwnCluster(standIns: StandIns, say: (line: string) => void) {
  const folder = await mkdtemp(path.join(await scratch(), 'examhall-demo-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  standIns.notification.forwardTo(url);
  standIns.fail('notification', LOST_REPLIES);
  const child = spawn(process.execPath, ['scripts/start/dev.ts'], {
    cwd: ROOT,
    env: {
      ...process.env,
      NODE_ENV: 'development',
      PORT: String(port),
      DATA_DIR: folder,
      LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
      MONGODB_DATABASE: DATABASE,
      NOTIFICATION_SERVICE_URL: standIns.urlOf('notification'),
      PROFILE_SERVICE_URL: standIns.urlOf('profile'),
      QUESTION_BANK_SERVICE_URL: standIns.urlOf('question-bank'),
    },
    // In its own process group: otherwise Ctrl-C in a terminal would reach the cluster before the demo stops it in order.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  /** Stops every process of the cluster and deletes its data. */
  const stop = async () => {
    await stopped(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilReady(child, say);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url,
    /** Checks its stored rows as `examhall doctor` does. Returns the promises that they break, with examples. */
    brokenPromises: () =>
      brokenPromisesIn(storesOf({ MONGODB_URL: process.env.MONGODB_URL || undefined, DATA_DIR: folder })),
    stop,
  };
}

/** Waits for the line by which `npm start` reports that it is ready, and reads on, so that the pipe never fills. */
function untilReady(child: ChildProcessByStdio<null, Readable, Readable>, say: (line: string) => void): Promise<void> {
  const tail: string[] = [];
  let isReady = false;
  return new Promise((resolve, reject) => {
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => {
        tail.push(line);
        if (tail.length > LAST_LINES) tail.shift();
        isReady ||= line.startsWith('ready http');
        if (isReady) resolve();
        else if (line.startsWith('start ')) say(line);
      });
    }
    child.on('error', reject);
    child.on('exit', () => reject(new Error(`the cluster did not start:\n${tail.join('\n')}`)));
  });
}

async function brokenPromisesIn(stores: NodeJS.ProcessEnv = {}): Promise<string[]> {
  const { MONGODB_URL: url } = stores;
  if (url === undefined) return ['the stores of the cluster are unknown, so its rows were not checked'];
  const mongo = openMongo({ url, database: DATABASE, appName: 'examhall-demo' });
  try {
    const reports = await checkInvariants(mongo, Date.now());
    return reports.flatMap(({ name, count, examples, unread }) => {
      if (unread !== null) return [`the promise "${name}" could not be checked: ${unread}`];
      return count === 0 ? [] : [`${count} rows break the promise "${name}": ${examples.join(', ')}`];
    });
  } finally {
    await mongo.close();
  }
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

/**
 * Returns the folder for temporary data: TMPDIR if set, otherwise shared memory if it has room, otherwise the system's default. The data
 * is deleted at the end, so that it never needs a disk.
 */
async function scratch(): Promise<string> {
  if (process.env.TMPDIR !== undefined) return tmpdir();
  try {
    const { bavail, bsize } = await statfs(SHARED_MEMORY);
    return bavail * bsize > ENOUGH_BYTES ? SHARED_MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/**
 * Returns the variables that name the running cluster's stores: MONGODB_URL, otherwise the ports that `npm start` stores in its data
 * folder. Returns undefined if neither is known. Without Redis the dispatcher relies on its poll.
 */
export function storesOf({ MONGODB_URL, DATA_DIR }: NodeJS.ProcessEnv): NodeJS.ProcessEnv | undefined {
  if (MONGODB_URL !== undefined) return MONGODB_URL === '' ? undefined : { MONGODB_URL };
  const folder = path.resolve(ROOT, DATA_DIR || '.data');
  // The stores listen on these ports only while a supervisor holds the folder.
  const stores = existsSync(path.join(folder, 'run', 'supervisor.json')) ? rememberedStores(folder) : {};
  return stores.MONGODB_URL === undefined ? undefined : stores;
}

/**
 * Starts one more `gradenotices` worker beside the running cluster. It delivers to the cluster and queries the demo for parents. The
 * demo answers 403 for students that it does not know, so that their notices wait and spend no attempt. The worker reads its token
 * from the environment, as the cluster does. Returns what stops it.
 */
export function addDispatcher(
  stores: NodeJS.ProcessEnv,
  neighbours: { clusterUrl: string; profileUrl: string },
): () => Promise<void> {
  const child = spawn(process.execPath, ['workers/main.ts', 'gradenotices'], {
    cwd: ROOT,
    env: {
      INTERNAL_SERVICE_TOKEN: DEVELOPMENT_DEFAULTS.INTERNAL_SERVICE_TOKEN,
      ...process.env,
      ...stores,
      NOTIFICATION_SERVICE_URL: neighbours.clusterUrl,
      PROFILE_SERVICE_URL: neighbours.profileUrl,
      WORKER_CONCURRENCY: '48',
      LOG_LEVEL: 'silent',
    },
    detached: true,
    stdio: 'ignore',
  });
  return () => stopped(child);
}
