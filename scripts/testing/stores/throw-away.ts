import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type EngineName, localMongodb } from '#scripts/start/services/mongodb.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { localRedis } from '#scripts/start/services/redis.ts';
import { type Service, untilReady } from '#scripts/start/services/service.ts';
import { toolsCache } from '#scripts/start/services/tools.ts';

/** A temporary service for tests. It keeps its URL and data over stops and starts, until `close`. */
export interface ThrowAwayService {
  readonly url: string;
  pid(): number | undefined;
  /** Resolves when the process has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  kill9(): Promise<void>;
  /** Starts the service and waits until it answers. Does nothing if it runs. */
  start(): Promise<void>;
  /** Sends SIGSTOP: connections stay open, and the service does not answer. */
  freeze(): void;
  thaw(): void;
}

export interface ThrowAwayServices {
  /** Holds their data and logs. */
  readonly folder: string;
  readonly mongodb: ThrowAwayService | undefined;
  readonly redis: ThrowAwayService | undefined;
  /** Stops the services and deletes their data. */
  close(): Promise<void>;
}

export interface ThrowAwayOptions {
  readonly mongodb?: boolean;
  readonly redis?: boolean;
  /** MongoDB server, which overrides EXAMHALL_ENGINE. Default: the one that `chooseEngine` names. */
  readonly engine?: EngineName;
  /** True: acknowledged writes survive a kill -9, and each commit costs a sync. Default false. */
  readonly durable?: boolean;
  /** True: they go on when this process ends, and another one kills them. Default false: they end with it. */
  readonly outlives?: boolean;
  readonly say?: (line: string) => void;
}

/** Starts MongoDB and Redis on free ports with a temporary folder, for tests that stop or kill them. Ignores MONGODB_URL and REDIS_URL. */
export async function startThrowAwayServices(options: ThrowAwayOptions = {}): Promise<ThrowAwayServices> {
  const { durable = false, outlives = false } = options;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-'));
  const env = options.engine === undefined ? process.env : { ...process.env, EXAMHALL_ENGINE: options.engine };
  const deps = { env, cache: toolsCache(), say: options.say ?? (() => {}) };
  const running: ThrowAwayService[] = [];
  const killAll = () => {
    for (const service of running) void service.kill9();
    rmSync(folder, { recursive: true, force: true });
  };
  if (!outlives) process.once('exit', killAll);
  const close = async () => {
    await Promise.all(running.map((service) => service.kill9()));
    process.off('exit', killAll);
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  const opened = async (service: Promise<Service>) => {
    const handle = throwAway(await service, folder, outlives);
    running.push(handle);
    return handle;
  };
  try {
    const place = { folder, port: await freePort(), durable, testCommands: true };
    const [mongodb, redis] = await Promise.all([
      options.mongodb === false ? undefined : opened(localMongodb(deps, place)),
      options.redis === false ? undefined : opened(localRedis(deps, { folder, port: await freePort() })),
    ]);
    await Promise.all([mongodb?.start(), redis?.start()]);
    return { folder, mongodb, redis, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function throwAway(service: Service, folder: string, outlives: boolean): ThrowAwayService {
  const log = path.join(folder, `${service.name}.log`);
  let child: ChildProcess | undefined;
  let gone: Promise<void> = Promise.resolve();

  async function start(): Promise<void> {
    const { launch } = service;
    if (child !== undefined || launch === undefined) return;
    const output = openSync(log, 'a');
    const started = spawn(launch.command, launch.args, {
      env: launch.env,
      cwd: launch.cwd,
      // In the group of this process, a signal to the group ends them all.
      detached: outlives,
      stdio: ['ignore', output, output],
    });
    closeSync(output);
    child = started;
    if (outlives) started.unref();
    const diedEarly = new AbortController();
    let isStarting = true;
    gone = new Promise((resolve) => {
      const over = () => {
        if (child === started) child = undefined;
        // The folder of a service that is ended later may be deleted already, and its log with it.
        if (isStarting)
          diedEarly.abort(
            new Error(`${service.name} ended while starting:\n${readFileSync(log, 'utf8').slice(-2_000)}`),
          );
        resolve();
      };
      started.once('exit', over);
      started.once('error', over);
    });
    await untilReady(service, 30_000, diedEarly.signal);
    isStarting = false;
  }

  async function stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    child?.kill(signal);
    // A stopped process receives only SIGKILL until SIGCONT resumes it.
    if (signal !== 'SIGKILL') child?.kill('SIGCONT');
    await gone;
    // The port of a killed process may stay busy for a moment.
    await delay(0);
  }

  return {
    url: service.url,
    pid: () => child?.pid,
    stop,
    kill9: () => stop('SIGKILL'),
    start,
    freeze: () => child?.kill('SIGSTOP'),
    thaw: () => child?.kill('SIGCONT'),
  };
}
