import type { Progress } from '#scripts/start/progress.ts';

/** Calls that the demo makes at the same time. */
const SOCKETS = 24;

/** Runs one part of the demo, `work` for every item, at most `atOnce` at a time, and shows its progress. */
export async function part<T>(
  progress: Progress,
  title: string,
  items: readonly T[],
  work: (item: T, index: number) => Promise<void>,
  atOnce = SOCKETS,
): Promise<void> {
  progress.begin(title, items.length);
  await inParallel([...items.entries()], atOnce, async ([index, item]) => {
    await work(item, index);
    progress.step();
  });
  progress.end(`${items.length} of ${items.length}`);
}

/** Runs `work` for every item, at most `limit` at a time; items start in order. Rejects at the first failure. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: Math.min(limit, items.length) }, async () => {
      // All lanes share one iterator: a free lane takes the next item.
      for (const item of queue) await work(item);
    }),
  );
}
