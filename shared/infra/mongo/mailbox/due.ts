import type { Filter } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { type Command, type CommandRef, dueInTurns, type Queue, type TurnQueue } from '#shared/kernel/command.ts';
import { mailboxOf } from './mailbox.ts';

/** A due command, as far as a worker needs it for a claim. This is only a hint: the claim checks again by MongoDB's own clock. */
export interface DueCommand extends CommandRef {
  /** Id of the session of a worker whose lease expired before it settled the command, or null. */
  session: string | null;
  /** True if the lease of its worker expired before that worker settled it. */
  abandoned: boolean;
  /** The organization in whose turn it runs; null: none is stored. */
  organizationId: string | null;
  nextRunAt: Date;
}

const FIELDS = { queue: 1, key: 1, session: 1, lockedUntil: 1, organizationId: 1, nextRunAt: 1 } as const;

const dueIn = (queue: Queue, now: number) =>
  ({ queue, status: 'PENDING', nextRunAt: { $lte: new Date(now) } }) as const satisfies Filter<Command>;

/**
 * Returns commands of these queues, which share a mailbox, that are due and not leased at `now` (Unix milliseconds, MongoDB's clock).
 * Longest due first, at most `limit` in all.
 */
export async function dueCommands(
  mongo: Mongo,
  queues: readonly [Queue, ...Queue[]],
  now: number,
  limit: number,
): Promise<DueCommand[]> {
  const [first, ...others] = queues;
  const due = await mailboxOf<Queue>(mongo, first)
    .find(
      // Each branch is a range of one index, and MongoDB merges them by time.
      others.length === 0 ? dueIn(first, now) : { $or: queues.map((queue) => dueIn(queue, now)) },
      { projection: FIELDS, sort: { nextRunAt: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return due.map(dueCommand);
}

/** Returns up to `limit` due commands of one queue, longest due first. Each call goes on where the one before has ended. */
export type DueReader = (now: number, limit: number) => Promise<DueCommand[]>;

/**
 * Opens a reader of a queue whose slots go round the organizations. A read takes the commands in the order of their organizations, from the
 * one after the last that it returned, and begins anew at the end. So a backlog of one organization fills a read and does not hide the
 * commands of the others: the next read has them. While all that is due fits into `limit`, each read returns all of it.
 */
export function openDueReader(mongo: Mongo, queue: TurnQueue): DueReader {
  /** The last organization of a full read; null: the next read begins with the first. */
  let place: string | null = null;

  async function read(after: string | null, now: number, limit: number): Promise<DueCommand[]> {
    const page = await mailboxOf<Queue>(mongo, queue)
      .find(
        { ...dueIn(queue, now), ...(after === null ? {} : { organizationId: { $gt: after } }) },
        {
          projection: FIELDS,
          sort: { organizationId: 1, nextRunAt: 1 },
          limit,
          // Without the name, the stand-ins for MongoDB choose `due` and find no row by the organization.
          hint: dueInTurns(queue),
          maxTimeMS: QUERY_LIMIT_MS,
        },
      )
      .toArray();
    // A command without an organization comes before every name.
    place = page.length < limit ? null : (page.at(-1)?.organizationId ?? '');
    return page.map(dueCommand);
  }

  return async (now, limit) => {
    const from = place;
    const due = await read(from, now, limit);
    if (from !== null && due.length < limit) {
      // The read has found all that follows the place, so only rows before it are new.
      const known = new Set(due.map(({ _id }) => _id));
      const begin = await read(null, now, limit - due.length);
      due.push(...begin.filter(({ _id }) => !known.has(_id)));
    }
    return due.sort((one, other) => one.nextRunAt.getTime() - other.nextRunAt.getTime());
  };
}

function dueCommand(command: Command): DueCommand {
  const { _id, queue, key, session = null, organizationId = null, lockedUntil, nextRunAt } = command;
  return { _id, queue, key, session, abandoned: lockedUntil !== null, organizationId, nextRunAt };
}
