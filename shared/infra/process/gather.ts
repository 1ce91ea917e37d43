import { AsyncLocalStorage } from 'node:async_hooks';
import { settlesWithin } from './background.ts';

/** The part of one caller in work for many: its result, or a promise of it if the caller needs work of its own. */
export type Part<Result> = Result | Promise<Result>;

/** Milliseconds after which a run holds up the next one no longer. A server that does not answer would otherwise stop all callers. */
export const HOLDS_MS = 250;

/**
 * Returns a function whose callers share runs of `work`. What is asked for during a run goes into the next one, up to `most` at once. An
 * idle process thus works for each caller alone, and a busy one for many, and none waits in order to fill a run. The parts that callers
 * await by themselves hold up no run.
 *
 * `work` returns one part for each item, in their order. If it throws, all of its callers get the error. It runs outside of the scope of
 * its callers, which are several.
 */
export function gather<Item, Result>(
  work: (items: readonly Item[]) => Promise<readonly Part<Result>[]>,
  most = GATHERED,
): (item: Item) => Promise<Result> {
  const waiting: Waiting<Item, Result>[] = [];
  const outside = AsyncLocalStorage.snapshot();
  let isWorking = false;

  async function workOn(): Promise<void> {
    // Those who ask in the same turn share the first run too.
    await new Promise(setImmediate);
    while (waiting.length > 0) {
      await settlesWithin(run(waiting.splice(0, most)), HOLDS_MS);
    }
    isWorking = false;
  }

  async function run(group: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const parts = await work(group.map(({ item }) => item));
      for (const [index, { resolve }] of group.entries()) resolve(parts[index] as Part<Result>);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  return (item) => {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    waiting.push({ item, resolve, reject });
    if (!isWorking) {
      isWorking = true;
      void outside(workOn);
    }
    return promise;
  };
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (part: Part<Result>) => void;
  readonly reject: (error: unknown) => void;
}

/** Items of one run, at most. Larger groups save little more, and each member waits for the slowest. */
export const GATHERED = 25;
