import type { Collection, Db } from 'mongodb';
import type { EventRow, SeatRow } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { Cluster } from '#testing/processes/cluster.ts';

/** Collections of a cluster, for tests that check stored documents. */
export interface Stored {
  attempts: Collection<Attempt>;
  events: Collection<EventRow>;
  seats: Collection<SeatRow>;
  commands: Collection<Command>;
  notices: Collection<Command>;
}

/** Returns the collections of a cluster. */
export function storedBy({ mongo }: Pick<Cluster, 'mongo'>): Stored {
  return {
    attempts: mongo.collection('attempts'),
    events: mongo.collection('attempt_events'),
    seats: mongo.collection('attempt_link_seats'),
    commands: mongo.collection(COMMANDS),
    notices: mongo.collection(NOTICES),
  };
}

/**
 * Sets deadline and close time of attempts to `at`, as if the start had named that close time. A start with a close time one second
 * ahead would make the test's own start and saves race against it on a slow machine.
 */
export async function closeExam(mongo: Db, attemptIds: string | readonly string[], at: Date): Promise<Date> {
  const ids = typeof attemptIds === 'string' ? [attemptIds] : [...attemptIds];
  const { matchedCount } = await mongo
    .collection<{ _id: string }>('attempts')
    .updateMany({ _id: { $in: ids } }, { $set: { deadlineAt: at, 'exam.closeTime': at } });
  if (matchedCount !== ids.length) throw new Error(`only ${matchedCount} of ${ids.length} attempts exist`);
  return at;
}
