import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';

/**
 * Ports below the system's range for outgoing connections. A client that connects to a killed service could otherwise be assigned the
 * same port, connect to itself, and block the port for the restarted service.
 */
const LOWEST = 10_000;
const HIGHEST = 32_000;
const MAX_ATTEMPTS = 200;

/** Returns a port on 127.0.0.1 that is free at the moment. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
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

/** Returns the port that a service had at its last start from this folder if it is free, otherwise a new port, which it stores. */
export async function rememberedPort(folder: string, name: string): Promise<number> {
  const file = portsFile(folder);
  const ports = rememberedPorts(folder);
  const last = ports[name];
  if (last !== undefined && (await isPortFree(last))) return last;
  const port = await freePort();
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(file, JSON.stringify({ ...ports, [name]: port }));
  return port;
}

/** Returns the URLs of the stores that were last started from this folder. A store that never was is absent. */
export function rememberedStores(folder: string): { MONGODB_URL?: string; REDIS_URL?: string } {
  const { mongodb, redis } = rememberedPorts(folder);
  return {
    // A direct connection works with any name of the replica set.
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
