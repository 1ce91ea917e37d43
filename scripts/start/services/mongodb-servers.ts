import path from 'node:path';
import { type Db, MongoClient } from 'mongodb';
import { ENGINE } from './engine/engine.ts';
import type { Service } from './service.ts';
import { pythonEnvironment, serverEnvironment } from './tools.ts';

export interface MongodbPlace {
  readonly folder: string;
  readonly port: number;
  /** True: every acknowledged write survives a kill -9. If false, a stand-in may lose a few; a real mongod never does. */
  readonly durable: boolean;
  /** Enables configureFailPoint, for tests of faults. */
  readonly testCommands: boolean;
}

/**
 * Lifetime limit of a transaction. If a process is killed inside a transaction, the documents that it wrote stay locked for this long.
 * MongoDB's default is a minute. Must exceed the 5 s that our transactions may last.
 */
const TRANSACTION_SECONDS = 10;

const REPLICA_SET = 'examhall';

/** Returns a `mongod` that runs as a replica set of one member, because transactions need a replica set. */
export function mongodService(mongod: string, place: MongodbPlace, env: NodeJS.ProcessEnv): Service {
  const host = `127.0.0.1:${place.port}`;
  const direct = `mongodb://${host}/?directConnection=true`;
  const where = ['--bind_ip', '127.0.0.1', '--port', String(place.port), '--dbpath', place.folder];
  const args = ['--replSet', REPLICA_SET, ...where];
  const lifetime = ['--setParameter', `transactionLifetimeLimitSeconds=${TRANSACTION_SECONDS}`];
  const tuning = ['--wiredTigerCacheSizeGB', '0.5', '--quiet', ...lifetime];
  const faults = place.testCommands ? ['--setParameter', 'enableTestCommands=1'] : [];
  return {
    name: 'mongodb',
    origin: mongod,
    url: `mongodb://${host}/?replicaSet=${REPLICA_SET}`,
    launch: { command: mongod, args: [...args, ...tuning, ...faults], env: serverEnvironment(env) },
    readiness: () => becomePrimary(direct, host),
  };
}

/**
 * Makes the server the primary of its replica set. Initiates the set in a new folder. If the folder was last used on another port, renames
 * the member.
 * @throws Error until the server is primary
 */
async function becomePrimary(direct: string, host: string): Promise<void> {
  await withClient(direct, async (client) => {
    const admin = client.db('admin');
    const hello = await admin.command({ hello: 1 });
    if (hello.isWritablePrimary === true && hello.me === host) return;
    // True if the server has no configuration, or one that does not contain it.
    const isOutside = hello.info !== undefined && hello.isreplicaset === true;
    const isNew = isOutside && (await initiate(admin, host));
    if (!isNew && (isOutside || !hello.hosts?.includes(host))) await rename(admin, host);
    throw new Error('the replica set has no primary yet');
  });
}

/** Initiates the replica set. Returns false if the server already has a configuration. */
async function initiate(admin: Db, host: string): Promise<boolean> {
  try {
    await admin.command({ replSetInitiate: { _id: REPLICA_SET, members: [{ _id: 0, host }] } });
    return true;
  } catch (error) {
    if (!(error instanceof Error && 'codeName' in error && error.codeName === 'AlreadyInitialized')) throw error;
    return false;
  }
}

async function rename(admin: Db, host: string): Promise<void> {
  const { config } = await admin.command({ replSetGetConfig: 1 });
  if (config.members[0].host === host) return;
  const members = [{ ...config.members[0], host }];
  await admin.command({ replSetReconfig: { ...config, members, version: config.version + 1 }, force: true });
}

/** Pings the server. @throws Error if it does not answer */
export function ping(url: string): Promise<void> {
  return withClient(url, async (client) => {
    await client.db('admin').command({ ping: 1 });
  });
}

/** Runs `work` with a client that dials every 20 ms (the driver: every 500 ms) for at most a second, and closes the client. */
async function withClient(url: string, work: (client: MongoClient) => Promise<void>): Promise<void> {
  const limits = { serverSelectionTimeoutMS: 1_000, connectTimeoutMS: 1_000, minHeartbeatFrequencyMS: 20 };
  const client = new MongoClient(url, limits);
  try {
    await work(client);
  } finally {
    await client.close();
  }
}

/**
 * The stand-ins for MongoDB: two programs of one project, in Python and in Rust, which speak MongoDB's protocol on WiredTiger.
 * Both are GPL-2.0, so each always runs as a separate process.
 */
export const SECANTUSDB = 'SecantusDB==0.7.0b3';
/** Minor versions of Python 3 for which the package has compiled modules. */
export const SECANTUSDB_PYTHON = { min: 10, max: 13 };

const PYTHON_MAIN = path.join(import.meta.dirname, 'secantusdb.py');

/** Returns the arguments of both stand-ins. Without `--sync-on-commit`, a kill -9 loses a few acknowledged writes. */
function commonArgs(place: MongodbPlace): string[] {
  const where = ['--host', '127.0.0.1', '--port', String(place.port), '--storage-path', place.folder];
  const size = ['--cache-size', place.durable ? '512M' : '256M', '--log-level', 'WARNING'];
  const durable = place.durable ? ['--sync-on-commit'] : [];
  const faults = place.testCommands ? ['--enable-test-commands'] : [];
  return [...where, ...size, ...durable, ...faults];
}

const urlOf = (place: MongodbPlace): string => `mongodb://127.0.0.1:${place.port}/?replicaSet=secantus`;

/**
 * Seconds between checkpoints of the stand-in in Python. With its default of 60, the cache is full of changed pages by then and each write
 * waits for their eviction.
 */
const PYTHON_CHECKPOINT_SECONDS = '3';

/** Returns the stand-in in Python; `tool` is the folder of the installed package. */
export function pythonService(python: string, tool: string, place: MongodbPlace, env: NodeJS.ProcessEnv): Service {
  const url = urlOf(place);
  return {
    name: 'mongodb',
    origin: SECANTUSDB,
    url,
    launch: {
      command: python,
      args: [PYTHON_MAIN, String(TRANSACTION_SECONDS), ...commonArgs(place)],
      env: {
        ...pythonEnvironment(env, path.join(tool, 'site')),
        PYTHONUNBUFFERED: '1',
        SECANTUS_CHECKPOINT_SECONDS: PYTHON_CHECKPOINT_SECONDS,
      },
      // SecantusDB reads a secantusdb.toml in its working directory. The data folder contains no such file.
      cwd: place.folder,
    },
    readiness: () => ping(url),
  };
}

const RUST_SETTINGS = path.join(import.meta.dirname, 'secantusd.toml');
/** Seconds between checkpoints. Writes since the last checkpoint are replayed at the next start. */
const CHECKPOINT_SECONDS = { durable: 10, fast: 60 };

/** Returns the stand-in in Rust; `binary` is the one that `npm run engine` built. */
export function rustService(binary: string, place: MongodbPlace, env: NodeJS.ProcessEnv): Service {
  const url = urlOf(place);
  const seconds = place.durable ? CHECKPOINT_SECONDS.durable : CHECKPOINT_SECONDS.fast;
  // The stand-in allocates each log file in full. With its default size, an empty store would take 128 MB.
  const storage = ['--config', RUST_SETTINGS, '--checkpoint-seconds', String(seconds), '--log-file-max', '16MB'];
  return {
    name: 'mongodb',
    origin: `${ENGINE.binary} ${ENGINE.version}`,
    url,
    launch: {
      command: binary,
      args: [...commonArgs(place), ...storage],
      env: serverEnvironment(env),
      cwd: place.folder,
    },
    // No command-line option exists for this parameter, so set it before the service counts as ready.
    readiness: () =>
      withClient(url, async (client) => {
        const limit = { transactionLifetimeLimitSeconds: TRANSACTION_SECONDS };
        await client.db('admin').command({ setParameter: 1, ...limit });
      }),
  };
}
