import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Collection } from 'mongodb';

const METHODS = [
  'findOne',
  'findOneAndUpdate',
  'updateOne',
  'updateMany',
  'insertOne',
  'insertMany',
  'bulkWrite',
] as const;

/** Environment of a process whose MongoDB answers each command up to so many milliseconds late, at random. */
export function slowMongo(mostMs: number): NodeJS.ProcessEnv {
  const preload = pathToFileURL(import.meta.filename).href;
  return { NODE_OPTIONS: `--import ${preload}`, FAULTS_SLOW_MONGO_MS: `${mostMs}` };
}

/** On a fast machine what races another process is over before that one has begun: this holds the windows open. */
function slowDown(mostMs: number): void {
  for (const name of METHODS) {
    const method = Collection.prototype[name] as (...args: unknown[]) => unknown;
    Reflect.set(Collection.prototype, name, async function slow(this: Collection, ...args: unknown[]) {
      await delay(Math.random() * mostMs);
      return method.apply(this, args);
    });
  }
}

const mostMs = Number(process.env.FAULTS_SLOW_MONGO_MS ?? 0);
if (mostMs > 0) slowDown(mostMs);
