import type { Collection, Db } from 'mongodb';
import type { EventRow, SeatRow } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import type { Cluster } from '#testing/processes/cluster.ts';

/** What a cluster has stored, for looking behind its doors. */
export interface Stored {
  attempts: Collection<Attempt>;
  events: Collection<EventRow>;
  seats: Collection<SeatRow>;
  commands: Collection<Command>;
  notices: Collection<Command>;
}

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
