import type { Db } from 'mongodb';

/**
 * Ends the time of an attempt at `at`, as if its exam had been started with that close time. A test that let the start
 * itself name a close a second ahead would race its own start and saves against it on a slow machine.
 */
export async function closeExam(mongo: Db, attemptIds: string | readonly string[], at: Date): Promise<Date> {
  const ids = typeof attemptIds === 'string' ? [attemptIds] : [...attemptIds];
  const { matchedCount } = await mongo
    .collection<{ _id: string }>('attempts')
    .updateMany({ _id: { $in: ids } }, { $set: { deadlineAt: at, 'exam.closeTime': at } });
  if (matchedCount !== ids.length) throw new Error(`${matchedCount} of ${ids.length} attempts are there to be closed`);
  return at;
}
