import type { Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { updateRow } from '#infra/mongo/guarded-row.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { type Command, type CommandRef, type Queue, SUSPECT_LAPSES } from '#shared/kernel/command.ts';
import { MAILBOXES } from './commands.ts';
import { mailboxOf, noneBeforeMigration } from './mailbox.ts';
import { LeaseLost } from './settle.ts';

const SUSPECTS = { status: 'PENDING', lapses: SUSPECT_LAPSES } as const satisfies Filter<Command>;

/** Returns the suspect that has been held longest of those that no worker runs, in these queues of one mailbox; null: nothing is held. */
export async function nextSuspect(mongo: Mongo, queues: readonly [Queue, ...Queue[]]): Promise<CommandRef | null> {
  const [first] = queues;
  const found = await mailboxOf<Queue>(mongo, first).findOne(
    { ...SUSPECTS, queue: { $in: [...queues] }, lockedUntil: null },
    {
      projection: { queue: 1, key: 1 },
      sort: { nextRunAt: 1 },
      // Not every planner sees that the partial index has these rows.
      hint: 'suspects',
      maxTimeMS: QUERY_LIMIT_MS,
    },
  );
  return found === null ? null : { _id: found._id, queue: found.queue, key: found.key };
}

/** A suspect as operators see it. `aloneUntil`: the end of the slot in which it runs; null while it is held. */
export interface Suspect {
  _id: string;
  queue: Queue;
  aloneUntil: Date | null;
}

/** Most suspects of one mailbox that operators see. */
const MOST_SHOWN = 100;

/** Returns the suspects of every queue at `now` (Unix milliseconds, MongoDB's clock), longest held first. */
export async function allSuspects(mongo: Mongo, now: number): Promise<Suspect[]> {
  const found = await Promise.all(
    MAILBOXES.map((name) =>
      mongo.db
        .collection<Command>(name)
        .find(SUSPECTS, {
          projection: { queue: 1, lockedUntil: 1 },
          sort: { queue: 1, nextRunAt: 1 },
          limit: MOST_SHOWN,
          hint: 'suspects',
          maxTimeMS: QUERY_LIMIT_MS,
        })
        .toArray()
        .catch(noneBeforeMigration),
    ),
  );
  return found.flat().map(({ _id, queue, lockedUntil }) => {
    const isRunning = lockedUntil !== null && lockedUntil.getTime() > now;
    return { _id, queue, aloneUntil: isRunning ? lockedUntil : null };
  });
}

/** The one place of the whole cluster in which a suspect runs. */
export interface IsolationSlot {
  _id: 'slot';
  /** End of the slot, by MongoDB's clock. In the past: the slot is free. */
  until: Date;
  /** The worker that took the slot last, for this command. It takes a new name each time. */
  workerId: string | null;
  queue: Queue | null;
  commandId: string | null;
  /** The random word of the last accepted guarded write; absent until the first one. */
  stamp?: string;
}

export const ISOLATION_SLOT = 'isolation_slot';

const slots = (mongo: Mongo) => mongo.db.collection<IsolationSlot>(ISOLATION_SLOT);

/**
 * Takes the isolation slot for `ms`, if it is free by MongoDB's clock. Returns the end of the slot, or null.
 *
 * The lease of the suspect ends with the slot, to the millisecond, and the next worker takes the slot after that end. So two suspects
 * never run at the same time. If the holder is killed, the slot ends by itself.
 */
export async function takeSlot(
  mongo: Mongo,
  { _id, queue }: CommandRef,
  { workerId, ms }: { workerId: string; ms: number },
): Promise<Date | null> {
  const update = guardedUpdate([{ $lte: [msOf('$until'), NOW_MS] }], {
    until: nowPlus(ms),
    workerId: literal(workerId),
    queue: literal(queue),
    commandId: literal(_id),
  });
  const never = { _id: 'slot', until: new Date(0), workerId: null, queue: null, commandId: null } as const;
  const row = await updateRow(slots(mongo), never, update);
  return wasAccepted(update, row) ? row.until : null;
}

/**
 * Extends the slot of this worker to `ms` from now. Returns its new end.
 * @throws LeaseLost if the slot has ended
 */
export async function extendSlot(
  mongo: Mongo,
  command: Command,
  { workerId, ms }: { workerId: string; ms: number },
): Promise<Date> {
  const update = guardedUpdate([{ $eq: ['$workerId', literal(workerId)] }, { $gt: [msOf('$until'), NOW_MS] }], {
    until: nowPlus(ms),
  });
  const row = await slots(mongo).findOneAndUpdate({ _id: 'slot' }, update.pipeline, {
    returnDocument: 'after',
    maxTimeMS: QUERY_LIMIT_MS,
  });
  if (row === null || !wasAccepted(update, row)) throw new LeaseLost(command);
  return row.until;
}

/** Ends the slot of this worker, whose run is over. Changes nothing if another worker has taken it since. */
export async function freeSlot(mongo: Mongo, { workerId }: { workerId: string }): Promise<void> {
  await slots(mongo).updateOne({ _id: 'slot', workerId }, [{ $set: { until: '$$NOW' } }], {
    maxTimeMS: QUERY_LIMIT_MS,
  });
}
