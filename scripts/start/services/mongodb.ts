import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { ENGINE, engineState } from './engine/engine.ts';
import {
  type MongodbPlace,
  mongodService,
  ping,
  pythonService,
  rustService,
  SECANTUSDB,
  SECANTUSDB_PYTHON,
} from './mongodb-servers.ts';
import { findPython, type InstallDeps, installPythonPackage } from './python-tools.ts';
import { type Service, ServiceMissing } from './service.ts';
import { onPath } from './tools.ts';

/** The servers that can serve as MongoDB, the best first, each with the name of its data folder. */
const ENGINES = {
  mongod: { is: 'mongod', folder: 'mongodb' },
  rust: { is: `${ENGINE.binary} ${ENGINE.version}`, folder: ENGINE.binary },
  python: { is: SECANTUSDB, folder: 'secantusdb' },
} as const;
export type EngineName = keyof typeof ENGINES;
type EngineChoice = { name: EngineName; is: string; advice?: string; binary?: string };
const NAMES = Object.keys(ENGINES) as EngineName[];

/** Returns the MongoDB at a URL, which this project does not start. */
export function mongodbAt(url: string): Service {
  return { name: 'mongodb', origin: 'MONGODB_URL', url, launch: undefined, readiness: () => ping(url) };
}

/**
 * Returns the server that `chooseEngine` names. Each engine has its own folder in `place.folder`.
 * @throws ServiceMissing if the server is not available
 */
export async function localMongodb(deps: InstallDeps, place: MongodbPlace): Promise<Service> {
  const { name, advice, binary } = chooseEngine(deps.env);
  if (place.durable && advice !== undefined) deps.say(advice);
  const folderOf = (engine: EngineName) => path.join(place.folder, ENGINES[engine].folder);
  const elsewhere = NAMES.filter((other) => existsSync(folderOf(other)));
  if (elsewhere.length > 0 && !elsewhere.includes(name)) {
    const others = elsewhere.join(' or ');
    deps.say(`${ENGINES[name].is} starts empty: the data in this folder is of EXAMHALL_ENGINE=${others}`);
  }
  const found = await FIND[name](deps, { ...place, folder: folderOf(name) }, binary);
  mkdirSync(folderOf(name), { recursive: true, mode: 0o700 });
  return found;
}

/**
 * Chooses the local MongoDB server: that of EXAMHALL_ENGINE, otherwise `mongod` from PATH, otherwise the stand-in that `npm run engine`
 * built, otherwise the stand-in in Python, which is installed on first use. `advice` is for the user at the terminal; `binary` is checked.
 * @throws ServiceMissing if EXAMHALL_ENGINE is unknown
 */
export function chooseEngine(env: NodeJS.ProcessEnv): EngineChoice {
  const { EXAMHALL_ENGINE: wanted } = env;
  if (wanted) {
    const name = NAMES.find((known) => known === wanted);
    if (name === undefined) throw missing(`EXAMHALL_ENGINE must be one of ${NAMES.join(', ')}`);
    return { name, is: ENGINES[name].is };
  }
  if (onPath(['mongod'], env.PATH) !== undefined) return { name: 'mongod', is: ENGINES.mongod.is };
  const engine = engineState(env);
  if (engine.kind === 'built') return { name: 'rust', is: ENGINES.rust.is, binary: engine.binary };
  return { name: 'python', is: ENGINES.python.is, advice: engine.kind === 'damaged' ? damaged(engine.folder) : FASTER };
}

/** Returns the servers that this machine can run, the best first. A Python is enough for its stand-in, which is installed on first use. */
export function enginesHere(env: NodeJS.ProcessEnv): { name: EngineName; is: string }[] {
  const here: Record<EngineName, boolean> = {
    mongod: onPath(['mongod'], env.PATH) !== undefined,
    rust: engineState(env).kind === 'built',
    python: findPython(SECANTUSDB_PYTHON, env.PATH) !== undefined,
  };
  return NAMES.filter((name) => here[name]).map((name) => ({ name, is: ENGINES[name].is }));
}

const FASTER =
  'this stand-in for MongoDB is slow: `npm run engine` builds a faster one (needs Rust, a C compiler and cmake; 5 minutes)';

function damaged(folder: string): string {
  return `${folder} does not contain the binary that \`npm run engine\` built and is ignored; run \`npm run engine\` again`;
}

const FIND: Record<EngineName, (deps: InstallDeps, place: MongodbPlace, binary?: string) => Promise<Service>> = {
  async mongod({ env }, place) {
    const mongod = onPath(['mongod'], env.PATH);
    if (mongod === undefined) throw missing('EXAMHALL_ENGINE is mongod, but no mongod is on PATH');
    return mongodService(mongod, place, env);
  },

  async rust({ env }, place, binary) {
    if (binary !== undefined) return rustService(binary, place, env);
    const engine = engineState(env);
    if (engine.kind === 'built') return rustService(engine.binary, place, env);
    if (engine.kind === 'damaged') throw missing(damaged(engine.folder));
    throw missing('EXAMHALL_ENGINE is rust, but `npm run engine` has not built this version');
  },

  async python(deps, place) {
    const python = findPython(SECANTUSDB_PYTHON, deps.env.PATH);
    if (python === undefined) {
      throw missing(
        'there is no MONGODB_URL, no mongod on PATH, no stand-in built by `npm run engine`, and no Python 3.10–3.13',
      );
    }
    try {
      return pythonService(python.file, await installPythonPackage(deps, python, SECANTUSDB), place, deps.env);
    } catch (error) {
      throw missing(error instanceof Error ? error.message : String(error));
    }
  },
};

function missing(reason: string): ServiceMissing {
  return new ServiceMissing('MongoDB', reason, [
    'MONGODB_URL=mongodb://host:27017/?replicaSet=name (a replica set: transactions need one)',
    'a mongod binary on PATH (7.0 or later)',
    `npm run engine, which builds ${ENGINE.binary} (needs Rust, a C compiler, cmake)`,
    `Python 3.10–3.13 with pip or venv on PATH and access to PyPI; ${SECANTUSDB} is then installed automatically`,
  ]);
}
