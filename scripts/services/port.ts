import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';

/**
 * Below the range from which the system picks a client's own port: a client that dials a service which was just
 * killed there could meet itself, and hold the port against the service's restart.
 */
const LOWEST = 10_000;
const HIGHEST = 32_000;
const TRIES = 200;

/** A port on 127.0.0.1 that nobody listened on a moment ago. */
export async function freePort(): Promise<number> {
  for (let tried = 0; tried < TRIES; tried++) {
    const port = randomInt(LOWEST, HIGHEST);
    if (await isPortFree(port)) return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST}`);
}

export async function isPortFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** The port a service had at the last start from this folder, when it is still free, else a new one. */
export async function rememberedPort(folder: string, name: string): Promise<number> {
  const file = portsFile(folder);
  const ports = rememberedPorts(folder);
  const last = ports[name];
  if (last !== undefined && (await isPortFree(last))) return last;
  const port = await freePort();
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify({ ...ports, [name]: port }));
  return port;
}

/** The addresses of the stores that were last started from this folder. Each is absent if none was. */
export function rememberedStores(folder: string): { MONGODB_URL?: string; REDIS_URL?: string } {
  const { mongodb, redis } = rememberedPorts(folder);
  return {
    // Whatever its replica set is called.
    ...(mongodb === undefined ? {} : { MONGODB_URL: `mongodb://127.0.0.1:${mongodb}/?directConnection=true` }),
    ...(redis === undefined ? {} : { REDIS_URL: `redis://127.0.0.1:${redis}` }),
  };
}

function portsFile(folder: string): string {
  return path.join(folder, 'run', 'ports.json');
}

function rememberedPorts(folder: string): Record<string, number> {
  try {
    const ports: unknown = JSON.parse(readFileSync(portsFile(folder), 'utf8'));
    if (typeof ports !== 'object' || ports === null) return {};
    return Object.fromEntries(Object.entries(ports).filter(([, port]) => Number.isInteger(port)));
  } catch {
    return {};
  }
}
