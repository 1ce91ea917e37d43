import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readingProcess } from '#infra/config/config.ts';
import { ownEnvironment, withSecretFiles } from '#infra/config/environment.ts';
import { isProcessType } from '#infra/config/readers.ts';
import { chooseEngine } from '#scripts/services/mongodb.ts';
import { isPortFree } from '#scripts/services/port.ts';
import { type Service, untilReady } from '#scripts/services/service.ts';
import { developmentServices } from '#scripts/services.ts';
import { createSupervisor, type Supervisor } from '#scripts/supervisor.ts';
import { type DataFolder, takeDataFolder } from './data-folder.ts';
import { effectiveEnvironment, frontDoorUrl, generatedSecret } from './development-defaults.ts';
import type { LaunchPlan } from './kept-process.ts';
import { createPrefixedOutput, type PrefixedOutput } from './prefixed-output.ts';
import { type ProcessType, parseFormation, parseProcfile } from './procfile.ts';
import { readableLines } from './readable-lines.ts';
import { runOnce } from './run-once.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Longest wait for MongoDB or a local Redis. */
const SERVICE_TIMEOUT_MS = 60_000;
/** Wait for a service before a message names it. */
const SILENCE_MS = 2_000;
/** Wait for the front door before a message names it; longer, because the processes log their own start. */
const DOOR_SILENCE_MS = 15_000;

/** A refused start. The message is for the user at the terminal and is printed without a stack. */
export class StartRefused extends Error {}

interface Plan {
  readonly port: number;
  /** URL of the first front door, for clients on this machine. */
  readonly url: string;
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly release: ProcessType | undefined;
  /** `type` of the Procfile; the first of several processes has the name `web1`. */
  readonly processes: readonly { name: string; type: string; command: string; port: number | undefined }[];
}

export interface Cluster {
  stop(): Promise<void>;
  kill(): void;
}

/** Checks all settings of a start before anything runs. @throws StartRefused with every fault */
export function planCluster(outer: NodeJS.ProcessEnv): Plan {
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
      name: count === 1 ? name : `${name}${index + 1}`,
      type: name,
      command,
      port: name === 'web' ? port + index : undefined,
    }));
  });
  const url = frontDoorUrl(env, port);
  return { port, url, folder, env, release: types.find(({ name }) => name === 'release'), processes };
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

/** Returns the environment without the secrets and addresses that a process type does not read. A type of another PROCFILE gets them all. */
function environmentOf(env: NodeJS.ProcessEnv, type: string): NodeJS.ProcessEnv {
  return isProcessType(type) ? ownEnvironment(env, readingProcess(env, type)).env : env;
}

/** Returns a METRICS_PORT for each process. On a shared port, only one process could serve its metrics. */
function metricsPortOf(env: NodeJS.ProcessEnv, nth: number): NodeJS.ProcessEnv {
  const first = Number(env.METRICS_PORT || 0);
  return first === 0 ? {} : { METRICS_PORT: String(first + nth) };
}

function portOf(text: string): number {
  const port = text === '' ? Number.NaN : Number(text);
  if (Number.isInteger(port) && port > 0 && port <= 65_535) return port;
  throw new Error(`PORT=${text}: a cluster listens on a port from 1 to 65535`);
}

function refused(faults: readonly string[]): StartRefused {
  return new StartRefused(['not started:', ...faults.map((fault) => `  - ${fault}`)].join('\n'));
}

/**
 * Returns the prefixed output for all processes of a plan. Lines are coloured on a terminal, unless NO_COLOR is set. Log lines are readable
 * text, in production JSON.
 */
export async function outputFor(
  plan: Plan,
  stream: NodeJS.WriteStream,
  env: NodeJS.ProcessEnv,
): Promise<PrefixedOutput> {
  const colour = stream.isTTY === true && !env.NO_COLOR;
  return createPrefixedOutput({
    write: (text) => stream.write(text),
    colour,
    readable: await readableLines(plan.env, colour),
    names: ['start', 'mongodb', 'redis', 'release', ...plan.processes.map(({ name }) => name)],
  });
}

/**
 * Starts services, release and processes, in this order, and resolves when the front door is ready. Calls `begun` with the cluster before
 * anything runs, so that a stop signal can end a start in progress.
 * @throws StartRefused with the reason
 */
export async function startCluster(
  deps: { output: PrefixedOutput; signal: AbortSignal; begun: (cluster: Cluster) => void },
  plan: Plan,
): Promise<void> {
  const { output, signal } = deps;
  const say = (line: string) => {
    for (const part of line.split('\n')) output.line('start', part);
  };
  const folder = await takeDataFolder(plan.folder, say).catch((error: Error) => {
    throw new StartRefused(error.message);
  });
  const supervisor = createSupervisor({ output, folder });
  deps.begun(clusterOf(supervisor, folder));

  // Check the ports only now: orphans of a killed supervisor, which `takeDataFolder` has stopped, use the same ports.
  for (const { name, port } of plan.processes) {
    if (port !== undefined && !(await isPortFree(port))) {
      throw new StartRefused(`port ${port} (${name}) is in use by another program; stop it or set PORT`);
    }
  }
  const { mongodb, redis } = await orStopped(developmentServices({ env: plan.env, folder: plan.folder, say }), signal);
  if (plan.env.NODE_ENV === 'production' && mongodb.launch !== undefined) {
    say(
      `MONGODB_URL is not set: this production cluster stores its data in one local ${mongodb.origin}, without a replica`,
    );
  }
  for (const service of [mongodb, redis]) {
    if (service.launch !== undefined) supervisor.keep('service', service.name, service.launch);
  }
  await serviceAnswers(say, mongodb, signal);
  await serviceAnswers(say, redis, signal);

  const env = { ...plan.env, MONGODB_URL: mongodb.url, REDIS_URL: redis.url, PATH: pinnedNodeFirst(plan.env.PATH) };
  if (plan.release !== undefined) {
    const { command } = plan.release;
    await runOnce(output, 'release', shell(command, environmentOf(env, 'release'), undefined), signal);
  }
  for (const [nth, { name, type, command, port }] of plan.processes.entries()) {
    signal.throwIfAborted();
    const own = { ...environmentOf(env, type), ...metricsPortOf(env, nth) };
    supervisor.keep('process', name, shell(command, own, port));
  }
  if (plan.processes.some(({ port }) => port !== undefined)) {
    const waits = setTimeout(() => say(`waiting for the front door (${plan.url}/readyz)`), DOOR_SILENCE_MS);
    await frontDoorReady(plan.url, signal).finally(() => clearTimeout(waits));
  }
}

function clusterOf(supervisor: Supervisor, folder: DataFolder): Cluster {
  return {
    stop: async () => {
      await supervisor.stop();
      folder.release();
    },
    kill: () => {
      supervisor.kill();
      folder.release();
    },
  };
}

/** Waits for `work`, or rejects when the signal aborts. An installation over a slow network must not delay a stop; it ends with the process. */
function orStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  signal.throwIfAborted();
  return Promise.race([work, stopped]);
}

/**
 * Waits until a service answers. If the Redis of REDIS_URL does not answer, prints a warning and continues, because Redis is only a
 * doorbell.
 * @throws StartRefused if another service does not answer in time
 */
async function serviceAnswers(say: (line: string) => void, service: Service, signal: AbortSignal): Promise<void> {
  if (service.name === 'redis' && service.launch === undefined) {
    await untilReady(service, 2_000, signal).catch((error: Error) => {
      signal.throwIfAborted();
      say(`${error.message}; continuing without it, commands wait for the poll`);
    });
    return;
  }
  const waits = setTimeout(() => say(`waiting for ${service.name} (${service.origin})`), SILENCE_MS);
  await untilReady(service, SERVICE_TIMEOUT_MS, signal)
    .catch((error: Error) => {
      signal.throwIfAborted();
      throw new StartRefused(error.message);
    })
    .finally(() => clearTimeout(waits));
  say(`${service.name} answers (${service.origin})`);
}

async function frontDoorReady(url: string, signal: AbortSignal): Promise<void> {
  while (true) {
    signal.throwIfAborted();
    try {
      const answer = await fetch(`${url}/readyz`, {
        signal: AbortSignal.any([signal, AbortSignal.timeout(2_000)]),
      });
      await answer.body?.cancel();
      if (answer.status === 200) return;
    } catch {
      // Not listening yet.
    }
    await delay(100);
  }
}

/** Returns a plan whose shell is replaced by a simple command, so that signals reach the command and its exit is seen at once. */
function shell(command: string, env: NodeJS.ProcessEnv, port: number | undefined): LaunchPlan {
  const { PORT: _port, ...rest } = env;
  const isSimple = !/[;&|()<>`]|^\w+=/.test(command);
  return {
    command: '/bin/sh',
    args: ['-c', isSimple ? `exec ${command}` : command],
    env: port === undefined ? rest : { ...rest, PORT: String(port) },
    cwd: ROOT,
  };
}

/** Returns a PATH whose `node` is the one of this process. In the Procfile, `node` means the platform's Node 24. */
function pinnedNodeFirst(searchPath: string | undefined): string {
  return [path.dirname(process.execPath), searchPath ?? ''].join(path.delimiter);
}
