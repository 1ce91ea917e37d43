import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { type Db, MongoClient } from 'mongodb';
import { onPath } from './on-path.ts';
import { findPython, installPythonPackage } from './python-tools.ts';
import { cleanPythonEnvironment, type Say } from './run-with-progress.ts';
import { type Service, ServiceMissing } from './service.ts';

/** Speaks MongoDB's protocol on WiredTiger; GPL-2.0, so it only ever runs as a process of its own. */
export const SECANTUSDB = 'SecantusDB==0.7.0b3';
const SECANTUSDB_PYTHON = { min: 10, max: 13 };
const REPLICA_SET = 'examhall';
/**
 * A process that is killed in the middle of a transaction leaves it open, and every document that it wrote locked, for
 * this long; MongoDB's own default is a minute. Above the 5 s that our transactions may last.
 */
const TRANSACTION_LIFETIME_SECONDS = 10;
const SECANTUSDB_MAIN = path.join(import.meta.dirname, 'secantusdb.py');

export interface MongodbPlace {
  /** Where the data lies; made when it is missing. */
  readonly folder: string;
  readonly port: number;
  /** Every acknowledged write survives a kill -9. Without it the stand-in loses a few; a real mongod never does. */
  readonly durable: boolean;
  /** Switches on configureFailPoint, for tests of faults. */
  readonly testCommands: boolean;
}

/** A MongoDB that somebody else runs. */
export function mongodbAt(url: string): Service {
  return { name: 'mongodb', origin: 'MONGODB_URL', url, launch: undefined, readiness: () => ping(url) };
}

/**
 * `mongod` from PATH as a replica set of one, else the pinned stand-in, installed on first use.
 * @throws ServiceMissing when neither can be had.
 */
export async function localMongodb(
  deps: { env: NodeJS.ProcessEnv; cache: string; say: Say },
  place: MongodbPlace,
): Promise<Service> {
  const mongod = onPath(['mongod'], deps.env.PATH);
  if (mongod !== undefined) return mongodService(mongod, place);
  const python = findPython(SECANTUSDB_PYTHON, deps.env.PATH);
  if (python === undefined)
    throw missing('there is no MONGODB_URL, no mongod on PATH and no Python 3.10–3.13 to install the stand-in');
  try {
    const tool = await installPythonPackage(deps, python, SECANTUSDB);
    return secantusdbService(python.file, tool, place);
  } catch (error) {
    throw missing(error instanceof Error ? error.message : String(error));
  }
}

function missing(reason: string): ServiceMissing {
  return new ServiceMissing('MongoDB', reason, [
    'MONGODB_URL=mongodb://host:27017/?replicaSet=name (a replica set: transactions need one)',
    'a mongod binary on PATH (7.0 or later)',
    `Python 3.10–3.13 with pip or venv on PATH and access to PyPI: ${SECANTUSDB} is then installed for you`,
  ]);
}

function mongodService(mongod: string, place: MongodbPlace): Service {
  const folder = path.join(place.folder, 'mongodb');
  mkdirSync(folder, { recursive: true });
  const host = `127.0.0.1:${place.port}`;
  const direct = `mongodb://${host}/?directConnection=true`;
  const args = ['--replSet', REPLICA_SET, '--bind_ip', '127.0.0.1', '--port', String(place.port), '--dbpath', folder];
  const lifetime = ['--setParameter', `transactionLifetimeLimitSeconds=${TRANSACTION_LIFETIME_SECONDS}`];
  const tuning = ['--wiredTigerCacheSizeGB', '0.5', '--quiet', ...lifetime];
  const faults = place.testCommands ? ['--setParameter', 'enableTestCommands=1'] : [];
  return {
    name: 'mongodb',
    origin: mongod,
    url: `mongodb://${host}/?replicaSet=${REPLICA_SET}`,
    launch: { command: mongod, args: [...args, ...tuning, ...faults], env: process.env },
    readiness: () => becomePrimary(direct, host),
  };
}

function secantusdbService(python: string, tool: string, place: MongodbPlace): Service {
  const folder = path.join(place.folder, 'secantusdb');
  mkdirSync(folder, { recursive: true });
  const url = `mongodb://127.0.0.1:${place.port}/?replicaSet=secantus`;
  const args = [
    SECANTUSDB_MAIN,
    String(TRANSACTION_LIFETIME_SECONDS),
    '--host',
    '127.0.0.1',
    '--port',
    String(place.port),
  ];
  const storage = ['--storage-path', folder, '--cache-size', place.durable ? '512M' : '256M', '--log-level', 'WARNING'];
  const durable = place.durable ? ['--sync-on-commit'] : [];
  const faults = place.testCommands ? ['--enable-test-commands'] : [];
  return {
    name: 'mongodb',
    origin: SECANTUSDB,
    url,
    launch: {
      command: python,
      args: [...args, ...storage, ...durable, ...faults],
      env: { ...cleanPythonEnvironment(), PYTHONPATH: path.join(tool, 'site'), PYTHONUNBUFFERED: '1' },
      // It reads a secantusdb.toml of its working directory: the data folder has none.
      cwd: folder,
    },
    readiness: () => ping(url),
  };
}

async function withClient(url: string, work: (client: MongoClient) => Promise<void>): Promise<void> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: 1_000, connectTimeoutMS: 1_000, maxPoolSize: 1 });
  try {
    await work(client);
  } finally {
    await client.close();
  }
}

function ping(url: string): Promise<void> {
  return withClient(url, async (client) => {
    await client.db('admin').command({ ping: 1 });
  });
}

/** A new folder has no replica set yet; one that last ran on another port names a member that no longer exists. */
async function becomePrimary(direct: string, host: string): Promise<void> {
  await withClient(direct, async (client) => {
    const admin = client.db('admin');
    const hello = await admin.command({ hello: 1 });
    if (hello.isWritablePrimary === true && hello.me === host) return;
    // So it answers with no configuration, and with one in which it does not find itself.
    const isOutside = hello.info !== undefined && hello.isreplicaset === true;
    const isNew = isOutside && (await initiate(admin, host));
    if (!isNew && (isOutside || !hello.hosts?.includes(host))) await rename(admin, host);
    throw new Error('the replica set has no primary yet');
  });
}

/** False: it has a configuration already. */
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
