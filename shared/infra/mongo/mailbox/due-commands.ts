import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { mailboxOf } from './mailbox.ts';

export interface DueCommand {
  _id: string;
  /** The session of a holder that did not settle it within its lease. */
  session: string | null;
}

/**
 * Commands of this queue that are due and unleased by `now` (Unix milliseconds, MongoDB's clock), oldest due
 * first. Only a hint where to knock: the claim judges again, under MongoDB's own clock.
 */
export async function dueCommands(mongo: Mongo, queue: Queue, now: number, limit: number): Promise<DueCommand[]> {
  const due = await mailboxOf(mongo, queue)
    .find(
      { queue, status: 'PENDING', nextRunAt: { $lte: new Date(now) } },
      { projection: { session: 1 }, sort: { nextRunAt: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return due.map(({ _id, session }) => ({ _id, session: session ?? null }));
}
