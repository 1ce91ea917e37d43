import { Stale } from '#infra/mongo/guarded-update.ts';

/** Decides about the next rows, at most `limit`, and commits them. Returns false if no row is left. May throw Stale. */
type Step = (limit: number) => Promise<boolean>;

/**
 * Takes one step after the other until no row is left, each a transaction of at most `most` rows. Throws if `signal` is aborted.
 *
 * If another writer has changed a row of a step since its read, the step throws Stale and is taken again with half the rows. In a class that
 * saves every second, a whole step might never stay unchanged. Each step that succeeds doubles the next one.
 */
export async function inSteps(signal: AbortSignal, most: number, step: Step): Promise<void> {
  let limit = most;
  for (;;) {
    signal.throwIfAborted();
    try {
      if (!(await step(limit))) return;
      limit = Math.min(most, 2 * limit);
    } catch (error) {
      if (!(error instanceof Stale)) throw error;
      limit = Math.ceil(limit / 2);
    }
  }
}
