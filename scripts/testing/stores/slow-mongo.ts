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

/** Environment of a process whose MongoDB answers each command up to so many milliseconds late, as `seed` has it. */
export function slowMongo(mostMs: number, seed: number): NodeJS.ProcessEnv {
  const preload = pathToFileURL(import.meta.filename).href;
  return { NODE_OPTIONS: `--import ${preload}`, FAULTS_SLOW_MONGO_MS: `${mostMs}`, FAULTS_SEED: `${seed}` };
}

/** On a fast machine what races another process is over before that one has begun: this holds the windows open. */
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
