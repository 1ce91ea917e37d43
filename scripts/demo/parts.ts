import type { Progress } from '#scripts/progress.ts';

/** Calls of the demo at once. */
export const SOCKETS = 24;

/** One part of the demo over all of something, with its bar. */
export async function part<T>(
  progress: Progress,
  title: string,
  items: readonly T[],
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  progress.begin(title, items.length);
  await inParallel([...items.entries()], SOCKETS, async ([index, item]) => {
    await work(item, index);
    progress.step();
  });
  progress.end(`${items.length} of ${items.length}`);
}

/** Does `work` for every item, at most `limit` at a time, in order of beginning. The first failure ends it. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: Math.min(limit, items.length) }, async () => {
      // One iterator for all: whoever is free takes the next.
      for (const item of queue) await work(item);
    }),
  );
}
