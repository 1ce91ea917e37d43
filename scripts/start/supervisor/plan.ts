import { readFileSync } from 'node:fs';
import path from 'node:path';
import { withSecretFiles } from '#infra/config/environment.ts';
import { chooseEngine } from '#scripts/start/services/mongodb.ts';
import { effectiveEnvironment, frontDoorUrl, generatedSecret } from './development-defaults.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** A refused start. The message is for the user at the terminal and is printed without a stack. */
export class StartRefused extends Error {}

export type Plan = ReturnType<typeof planCluster>;

/** Checks all settings of a start before anything runs. @throws StartRefused with every fault */
export function planCluster(outer: NodeJS.ProcessEnv) {
  // The addresses of the stores decide which of them this command starts.
  const { env: given, faults } = withSecretFiles(outer, ['MONGODB_URL', 'REDIS_URL']);
  /** Returns the result of `read`. If it throws, records a fault and returns `otherwise`, so that the remaining settings are checked too. */
  const readOr = <T>(otherwise: T, read: () => T): T => {
    try {
      return read();
    } catch (error) {
      faults.push(error instanceof Error ? error.message : String(error));
      return otherwise;
    }
  };
  const port = readOr(3000, () => portOf(given.PORT ?? '3000'));
  if (given.DATA_DIR === '') faults.push('DATA_DIR: empty; expected a folder');
  const folder = path.resolve(ROOT, given.DATA_DIR || '.data');
  const types = readOr([], () => parseProcfile(readProcfile(given.PROCFILE ?? 'Procfile')));
  const running = types.filter(({ name }) => name !== 'release');
  const names = running.map(({ name }) => name);
  const formation = readOr(new Map<string, number>(), () =>
    types.length === 0 ? new Map() : parseFormation(given.FORMATION ?? '', names),
  );
  const secret = () => readOr('none', () => secretIn(folder, faults.length > 0));
  const { env, faults: refusals } = effectiveEnvironment({ ...given, PORT: String(port) }, { port, secret });
  faults.push(...refusals);
  if (given.NODE_ENV === 'production' && given.MONGODB_URL === undefined) {
    const engine = readOr(undefined, () => chooseEngine(given));
    if (engine !== undefined && engine.name !== 'mongod')
      faults.push(`MONGODB_URL: not set, wanted a replica set; ${engine.is} is a stand-in for development`);
  }
  if (faults.length > 0) throw refused(faults);

  const processes = running.flatMap(({ name, command }) => {
    const count = formation.get(name) ?? 0;
    return Array.from({ length: count }, (_, index) => ({
      /** That of the Procfile; the first of several processes has the name `web1`. */
      name: count === 1 ? name : `${name}${index + 1}`,
      type: name,
      command,
      port: name === 'web' ? port + index : undefined,
    }));
  });
  return {
    /** URL of the first front door, for clients on this machine. */
    url: frontDoorUrl(env, port),
    folder,
    env,
    release: types.find(({ name }) => name === 'release'),
    processes,
  };
}

function readProcfile(file: string): string {
  try {
    return readFileSync(path.resolve(ROOT, file), 'utf8');
  } catch (error) {
    throw new Error(`PROCFILE=${file} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

/** Returns the generated secret of the data folder. If the start is refused anyway, creates no folder and returns a placeholder. */
function secretIn(folder: string, isRefused: boolean): string {
  if (isRefused) return 'none';
  try {
    return generatedSecret(folder);
  } catch (error) {
    throw new Error(`DATA_DIR=${folder} cannot be written: ${error instanceof Error ? error.message : error}`);
  }
}

function portOf(text: string): number {
  const port = text === '' ? Number.NaN : Number(text);
  if (Number.isInteger(port) && port > 0 && port <= 65_535) return port;
  throw new Error(`PORT=${text}: a cluster listens on a port from 1 to 65535`);
}

function refused(faults: readonly string[]): StartRefused {
  return new StartRefused(['not started:', ...faults.map((fault) => `  - ${fault}`)].join('\n'));
}

/** Process types have letters and digits only, as platforms require. */
const LINE = /^([A-Za-z][A-Za-z0-9]*)\s*:\s*(\S.*)$/;

/** Reads the process types of a Procfile. @throws Error with the line number if a line is not blank, a comment or `name: command` */
export function parseProcfile(text: string): { name: string; command: string }[] {
  const types: { name: string; command: string }[] = [];
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const match = LINE.exec(line);
    const [, name, command] = match ?? [];
    if (name === undefined || command === undefined)
      throw new Error(`Procfile line ${index + 1} is not "name: command"`);
    if (types.some((type) => type.name === name)) throw new Error(`Procfile line ${index + 1} repeats "${name}"`);
    types.push({ name, command: command.trim() });
  }
  return types;
}

/**
 * Returns the number of processes of each type: one, unless `text` sets another count, for example `web=2,grading=0`.
 * @throws Error if a name is not in `names` or a count is not 0–99
 */
export function parseFormation(text: string, names: readonly string[]): Map<string, number> {
  const formation = new Map(names.map((name) => [name, 1]));
  for (const part of text.split(/[,\s]+/)) {
    if (part === '') continue;
    const [, name, count] = /^([A-Za-z][A-Za-z0-9]*)=(\d{1,2})$/.exec(part) ?? [];
    if (name === undefined || count === undefined) throw new Error(`FORMATION: "${part}" is not name=count`);
    if (!formation.has(name)) throw new Error(`FORMATION: "${name}" is not a process type (${names.join(', ')})`);
    formation.set(name, Number(count));
  }
  return formation;
}
