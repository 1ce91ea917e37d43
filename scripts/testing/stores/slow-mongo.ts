import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Collection } from 'mongodb';
import { openChance } from '#testing/chance.ts';

const METHODS = [
  'findOne',
  'findOneAndUpdate',
  'updateOne',
  'updateMany',
  'insertOne',
  'insertMany',
  'bulkWrite',
] as const;

/** Returns the environment of a process that sends each MongoDB command up to `mostMs` milliseconds late, at random from `seed`. */
export function slowMongo(mostMs: number, seed: number): NodeJS.ProcessEnv {
  const preload = pathToFileURL(import.meta.filename).href;
  return { NODE_OPTIONS: `--import ${preload}`, FAULTS_SLOW_MONGO_MS: `${mostMs}`, FAULTS_SEED: `${seed}` };
}

/** Delays every call of these collection methods. On a fast machine, races between processes would otherwise hardly occur. */
function slowDown(mostMs: number): void {
  const chance = openChance(() => undefined);
  for (const name of METHODS) {
    const method = Collection.prototype[name] as (...args: unknown[]) => unknown;
    Reflect.set(Collection.prototype, name, async function slow(this: Collection, ...args: unknown[]) {
      await delay(chance.next() * mostMs);
      return method.apply(this, args);
    });
  }
}

const mostMs = Number(process.env.FAULTS_SLOW_MONGO_MS ?? 0);
if (mostMs > 0) slowDown(mostMs);
