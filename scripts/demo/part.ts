import { inParallel } from './in-parallel.ts';
import type { Progress } from './progress.ts';

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
