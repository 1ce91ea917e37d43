import path from 'node:path';
import { ENGINE } from './engine/engine.ts';
import { type MongodbPlace, ping, TRANSACTION_SECONDS, withClient } from './mongod.ts';
import type { Service } from './service.ts';
import { pythonEnvironment, serverEnvironment } from './tools.ts';

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
