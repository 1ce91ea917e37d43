import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';

/**
 * Ports below the system's range for outgoing connections. A client that connects to a killed service could otherwise be assigned the
 * same port, connect to itself, and block the port for the restarted service.
 */
const LOWEST = 10_000;
const HIGHEST = 21_000;
/** From a port to its guard, above all ports that `freePort` returns and also below the system's range. */
const TO_GUARD = HIGHEST - LOWEST;
const MAX_ATTEMPTS = 200;

/**
 * Returns a port on 127.0.0.1 that nothing listens on, the first of `count` in a row. No process gets it again from here while this one
 * lives: two that start services at the same time would otherwise choose the same port before either listens on it.
 */
export async function freePort(count = 1): Promise<number> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const first = randomInt(LOWEST, HIGHEST - count);
    const row = Array.from({ length: count }, (_, n) => takePort(first + n));
    if ((await Promise.all(row)).every(Boolean)) return first;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST}`);
}

/** Holds the guard of a port until this process ends. Returns false if another holds it, or if the port is in use. */
async function takePort(port: number): Promise<boolean> {
  const guard = await listenOn(port + TO_GUARD);
  if (guard !== undefined && (await isPortFree(port))) return true;
  guard?.close();
  return false;
}

export async function isPortFree(port: number): Promise<boolean> {
  const server = await listenOn(port);
  if (server === undefined) return false;
  return new Promise((resolve) => server.close(() => resolve(true)));
}

async function listenOn(port: number): Promise<Server | undefined> {
  const server = createServer().unref();
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

/** Returns the port that a service had at its last start from this folder if it is free, otherwise a new port, which it stores. */
export async function rememberedPort(folder: string, name: string): Promise<number> {
  const file = portsFile(folder);
  const ports = rememberedPorts(folder);
  const last = ports[name];
  if (last !== undefined && (await takePort(last))) return last;
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
