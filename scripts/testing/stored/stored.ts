import type { Collection } from 'mongodb';
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
