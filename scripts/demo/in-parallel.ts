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
