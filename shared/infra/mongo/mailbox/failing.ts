import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import type { FailureCode, Refusal } from '#shared/kernel/failure.ts';
import { HELD_BACK_MS } from '#shared/operations/failing-alarms.ts';
import { mailboxOf, noneBeforeMigration } from './mailbox.ts';

/** Waiting commands of a queue whose last run failed, by what failed it. */
export interface FailingCommands {
  /** The dependency that refuses them; null: any other failure. */
  refusal: Refusal | null;
  count: number;
  /** When the first of them was refused so; null without a refusal. */
  refusedSince: Date | null;
  /** Those that back off and have failed for `HELD_BACK_MS` or longer, and when the first of them began to fail; null: none. */
  heldBack: { count: number; since: Date } | null;
  /** The newest failure, and its command. */
  newest: { at: Date; message: string; _id: string };
}

interface FailingRow {
  _id: { service: string | null; status: number | null };
  count: number;
  refusedSince: Date | null;
  held: number;
  since: Date | null;
  newest: FailingCommands['newest'];
}

const IS_REFUSED = { $eq: ['$lastError.code', 'MISCONFIGURED' satisfies FailureCode] };
const ifRefused = (path: string) => ({ $cond: [IS_REFUSED, { $ifNull: [`$lastError.refusal.${path}`, null] }, null] });

/**
 * Returns the failing commands of a queue at `now` (Unix milliseconds, MongoDB's clock), at most `limit` of them, those that have failed longest
 * first. All of it is stored with the commands, so that it survives a restart of every process.
 */
export async function failingCommands(
  mongo: Mongo,
  queue: Queue,
  { now, limit }: { now: number; limit: number },
): Promise<FailingCommands[]> {
  // A run may go on for long after a failure, and does not back off. Null sorts before every time.
  const isHeld = {
    $and: [{ $lte: ['$failingSince', new Date(now - HELD_BACK_MS)] }, { $lte: ['$lockedUntil', new Date(now)] }],
  };
  const rows = await mailboxOf<Queue>(mongo, queue)
    .aggregate<FailingRow>(
      [
        { $match: { queue, status: 'PENDING', failing: true } satisfies Partial<Command> },
        { $sort: { failingSince: 1 } },
        { $limit: limit },
        {
          $group: {
            _id: { service: ifRefused('service'), status: ifRefused('status') },
            count: { $sum: 1 },
            refusedSince: { $min: ifRefused('since') },
            held: { $sum: { $cond: [isHeld, 1, 0] } },
            since: { $min: { $cond: [isHeld, '$failingSince', null] } },
            // Documents are compared by their fields in this order.
            newest: { $max: { at: '$lastError.at', message: '$lastError.message', _id: '$_id' } },
          },
        },
      ],
      // Not every planner sees that the partial index has exactly these rows.
      { hint: 'failing', maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray()
    .catch(noneBeforeMigration);
  return rows.map(({ _id: { service, status }, count, refusedSince, held, since, newest }) => ({
    refusal: service === null || status === null ? null : { service, status },
    count,
    refusedSince,
    heldBack: since === null ? null : { count: held, since },
    newest,
  }));
}
