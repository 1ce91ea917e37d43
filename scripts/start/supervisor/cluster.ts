import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readingProcess } from '#infra/config/config.ts';
import { ownEnvironment } from '#infra/config/environment.ts';
import { isProcessType } from '#infra/config/readers.ts';
import { localMongodb, mongodbAt } from '#scripts/start/services/mongodb.ts';
import { isPortFree, rememberedPort } from '#scripts/start/services/port.ts';
import { localRedis, redisAt } from '#scripts/start/services/redis.ts';
import { ask, type Service, untilReady } from '#scripts/start/services/service.ts';
import { toolsCache } from '#scripts/start/services/tools.ts';
import { createSupervisor, type LaunchPlan, runOnce, type Supervisor } from '#scripts/start/supervisor.ts';
import { type Plan, StartRefused } from './plan.ts';
import { createPrefixedOutput, type PrefixedOutput, readableLines } from './prefixed-output.ts';
import { takeDataFolder } from './processes.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const SERVICE_TIMEOUT_MS = 60_000;
/** Wait for a service before a message names it. */
const SILENCE_MS = 2_000;
/** Wait for the front door before a message names it; longer, because the processes log their own start. */
const DOOR_SILENCE_MS = 15_000;
/** The first request comes sooner if ten workers do not load at the same time. A door that is not ready must not keep them waiting. */
const HEAD_START_MS = 2_000;

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
 * Starts services, release and processes, in this order, and resolves when the front door is ready. Calls `begun` with the supervisor
 * before anything runs, so that a stop signal can end a start in progress.
 * @throws StartRefused with the reason
 */
export async function startCluster(
  deps: { output: PrefixedOutput; signal: AbortSignal; begun: (supervisor: Supervisor) => void },
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
  deps.begun(supervisor);

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
  const planned = plan.processes.map(({ name, type, command, port }, nth) => {
    const own = { ...environmentOf(env, type), ...metricsPortOf(env, nth) };
    return { isDoor: port !== undefined, keep: () => supervisor.keep('process', name, shell(command, own, port)) };
  });
  const [doors, workers] = [planned.filter(({ isDoor }) => isDoor), planned.filter(({ isDoor }) => !isDoor)];
  signal.throwIfAborted();
  for (const door of doors) door.keep();
  const isOpen = doors.length === 0 ? Promise.resolve() : doorAnswers(say, plan.url, signal);
  await Promise.race([isOpen, delay(HEAD_START_MS, undefined, { signal, ref: false })]);
  for (const worker of workers) worker.keep();
  await isOpen;
}

async function doorAnswers(say: (line: string) => void, url: string, signal: AbortSignal): Promise<void> {
  const waits = setTimeout(() => say(`waiting for the front door (${url}/readyz)`), DOOR_SILENCE_MS);
  const door = { name: 'the front door', origin: url, readiness: () => readinessOf(url) };
  await untilReady(door, Number.POSITIVE_INFINITY, signal).finally(() => clearTimeout(waits));
}

/**
 * Returns the MongoDB and Redis of a development cluster: those of MONGODB_URL and REDIS_URL, otherwise local ones that store their data
 * and ports in the data folder. A variable that is set to the empty string counts as set.
 * @throws ServiceMissing if one can neither be found nor installed
 */
export async function developmentServices(place: {
  env: NodeJS.ProcessEnv;
  folder: string;
  say: (line: string) => void;
}): Promise<{ mongodb: Service; redis: Service }> {
  const { env, folder, say } = place;
  const local = { env, cache: toolsCache(env), say };
  // One after the other, because their installations share the machine and the terminal.
  const kept = async () => ({
    folder,
    port: await rememberedPort(folder, 'mongodb'),
    durable: true,
    testCommands: false,
  });
  const mongodb = env.MONGODB_URL === undefined ? await localMongodb(local, await kept()) : mongodbAt(env.MONGODB_URL);
  const redis =
    env.REDIS_URL === undefined
      ? await localRedis(local, { folder, port: await rememberedPort(folder, 'redis') })
      : redisAt(env.REDIS_URL);
  return { mongodb, redis };
}

/** Waits for `work`, or rejects when the signal aborts. An installation over a slow network must not delay a stop; it ends with the process. */
function orStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return Promise.race([work, once(signal, 'abort').then(() => Promise.reject(signal.reason))]);
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

/** Asks over a plain socket: `fetch` loads a client that takes a tenth of a second, and 15 MB for as long as the cluster runs. */
async function readinessOf(url: string): Promise<void> {
  const request = `GET /readyz HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: close\r\n\r\n`;
  const answer = await ask(url, 80, request);
  if (!/^HTTP\/1\.\d 200\b/.test(answer)) throw new Error(`it answers ${answer}`);
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

/** Returns the environment without the secrets and addresses that a process type does not read. A type of another PROCFILE gets them all. */
function environmentOf(env: NodeJS.ProcessEnv, type: string): NodeJS.ProcessEnv {
  return isProcessType(type) ? ownEnvironment(env, readingProcess(env, type)).env : env;
}

/** Returns a METRICS_PORT for each process. On a shared port, only one process could serve its metrics. */
function metricsPortOf(env: NodeJS.ProcessEnv, nth: number): NodeJS.ProcessEnv {
  const first = Number(env.METRICS_PORT || 0);
  return first === 0 ? {} : { METRICS_PORT: String(first + nth) };
}
