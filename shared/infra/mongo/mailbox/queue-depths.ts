import type { ClientSession, Collection } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isUnserved, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { actorOf, type Command, type DeadLetterMark, type Queue, UNLIMITED_ATTEMPTS } from '#shared/kernel/command.ts';
import type { FailureCode } from '#shared/kernel/failure.ts';
import { MAILBOXES, QUEUES } from './commands.ts';
import { LISTED } from './dead-letters.ts';
import { type FailingCommands, failingCommands } from './failing.ts';
import { mailboxOf } from './mailbox.ts';
import { allSuspects, type Suspect } from './suspects.ts';

/** The number of commands in one queue. No count exceeds 10,000. */
export interface QueueDepth {
  queue: Queue;
  /** Neither settled nor running: those that are `due`, back off, or wait until a neighbour is configured. */
  waiting: number;
  /** Waiting commands that need a setting first, because their actor runs and does not serve the queue. Sweeps are not counted. */
  unserved: number;
  /** Ready to run now, including those of a killed worker whose lease has expired. */
  due: number;
  /** Under a lease that has not expired. */
  running: number;
  /** Dead letters that wait for an operator: neither acknowledged nor dropped. */
  dead: number;
  acknowledged: number;
  /** The dead letters among `dead` whose last run was one alone, and the newest of them; null: none. */
  poisoned: { count: number; newest: string } | null;
  /** Pending commands that run only alone. Those that are held count as waiting. */
  suspects: readonly Suspect[];
  /** Commands whose last run failed, by what failed it. None while the queue waits for a setting. */
  failing: readonly FailingCommands[];
  /** The running command that was claimed, or has stored a step, longest ago; null: none runs. */
  stillest: { _id: string; workerId: string | null; movedAt: Date } | null;
  /** Age of the oldest due command, from when it became due, in milliseconds; null without a due command. */
  oldestDueMs: number | null;
}

/** Upper bound of each count, because a scrape must stay cheap when a backlog has built up. */
const DEPTH_LIMIT = 10_000;
/**
 * Number of commands, in the order in which they come due, that are searched for leases. A lease ends soon, so leased commands come
 * before nearly all that back off.
 */
const NEXT_DUE = 1_000;
const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

/**
 * Returns the depth of every queue, sorted by name. Each count reads a partial index up to `limit`.
 *
 * `live` are the running worker processes. If the actor of a queue runs but does not serve the queue, because a neighbour is not
 * configured, nothing in it counts as due.
 */
export async function queueDepths(
  mongo: Mongo,
  now: number,
  live: readonly WorkerRow[],
  limit = DEPTH_LIMIT,
): Promise<QueueDepth[]> {
  const [dead, suspects] = await Promise.all([deadPerQueue(mongo, limit), allSuspects(mongo, now)]);
  const depths: QueueDepth[] = [];
  // Query one queue at a time, to leave the connections to the requests of students.
  for (const queue of QUEUES) {
    const depth = await depthOf(mongo, queue, new Date(now), limit);
    const unserved = isUnserved(queue, actorOf(queue), live);
    depths.push({
      queue,
      waiting: depth.due + depth.backingOff,
      running: depth.running,
      dead: dead.get(queue)?.count ?? 0,
      acknowledged: dead.get(`${queue} ACKNOWLEDGED`)?.count ?? 0,
      poisoned: dead.get(queue)?.poisoned ?? null,
      suspects: suspects.filter((suspect) => suspect.queue === queue),
      failing: unserved ? [] : depth.failing,
      stillest: depth.stillest,
      due: unserved ? 0 : depth.due,
      unserved: unserved ? await pendingCount(mongo, queue, limit) : 0,
      oldestDueMs: unserved || depth.oldest === null ? null : Math.max(0, now - depth.oldest.getTime()),
    });
  }
  return depths.sort((a, b) => a.queue.localeCompare(b.queue));
}

/** Returns the number of due commands of a queue at `now` (Unix milliseconds, MongoDB's clock), counted up to `limit`. */
export function dueCount(
  mongo: Mongo,
  queue: Queue,
  now: number,
  { limit, session }: { limit: number; session?: ClientSession },
): Promise<number> {
  const due = { queue, status: 'PENDING', nextRunAt: { $lte: new Date(now) } } as const;
  const commands = mailboxOf(mongo, queue) as Collection<Command>;
  return commands.countDocuments(due, { limit, ...BOUND, ...readIn(session) });
}

/** Returns the number of unsettled commands of a queue that are no sweeps, counted up to `limit`. */
function pendingCount(mongo: Mongo, queue: Queue, limit: number): Promise<number> {
  const pending = { queue, status: 'PENDING', maxAttempts: { $lt: UNLIMITED_ATTEMPTS } } as const;
  // Not every planner sees that an index of dead commands has none of these.
  return (mailboxOf(mongo, queue) as Collection<Command>).countDocuments(pending, { limit, hint: 'due', ...BOUND });
}

async function depthOf(mongo: Mongo, queue: Queue, at: Date, limit: number) {
  const commands = mailboxOf(mongo, queue) as Collection<Command>;
  // The nextRunAt of a leased command is the end of its lease. The same filter therefore finds the commands of killed workers.
  const due = { queue, status: 'PENDING', nextRunAt: { $lte: at } } as const;
  const later = { queue, status: 'PENDING', nextRunAt: { $gt: at } } as const;
  const [dueCount, laterCount, running, oldest, failing] = await Promise.all([
    commands.countDocuments(due, { limit, ...BOUND }),
    commands.countDocuments(later, { limit, ...BOUND }),
    commands
      .aggregate<{ count: number; stillest: QueueDepth['stillest'] }>(
        [
          { $match: later },
          { $sort: { nextRunAt: 1 } },
          { $limit: NEXT_DUE },
          { $match: { lockedUntil: { $gt: at } } },
          {
            $group: {
              _id: null,
              count: { $sum: 1 },
              // Documents are compared by their fields in this order.
              stillest: { $min: { movedAt: '$movedAt', _id: '$_id', workerId: '$workerId' } },
            },
          },
        ],
        BOUND,
      )
      .next(),
    commands.findOne(due, { projection: { _id: 0, nextRunAt: 1 }, sort: { nextRunAt: 1 }, ...BOUND }),
    failingCommands(mongo, queue, { now: at.getTime(), limit }),
  ]);
  const runningCount = running?.count ?? 0;
  return {
    due: dueCount,
    running: runningCount,
    stillest: running?.stillest ?? null,
    failing,
    backingOff: Math.max(0, laterCount - runningCount),
    oldest: oldest?.nextRunAt ?? null,
  };
}

/** Dead letters of one queue with one mark. */
type DeadCount = { count: number } & Pick<QueueDepth, 'poisoned'>;

interface DeadCountRow {
  _id: { queue: string; letter: DeadLetterMark | null };
  count: number;
  poisoned: number;
  newest: string | null;
}

/** Returns counts by queue for unmarked dead letters, and by queue and mark for acknowledged ones. */
async function deadPerQueue(mongo: Mongo, limit: number): Promise<Map<string, DeadCount>> {
  const isPoisoned = { $eq: ['$lastError.code', 'POISONED' satisfies FailureCode] };
  const perMailbox = await Promise.all(
    MAILBOXES.map((name) =>
      mongo.db
        .collection<Command>(name)
        .aggregate<DeadCountRow>(
          [
            { $match: { status: 'DEAD', letter: { $in: LISTED } } },
            { $limit: limit },
            {
              $group: {
                _id: { queue: '$queue', letter: { $ifNull: ['$letter', null] } },
                count: { $sum: 1 },
                poisoned: { $sum: { $cond: [isPoisoned, 1, 0] } },
                // null sorts before every id.
                newest: { $max: { $cond: [isPoisoned, '$_id', null] } },
              },
            },
          ],
          // The partial index contains exactly these rows, but not every planner chooses it.
          { hint: 'dead_letters', ...BOUND },
        )
        .toArray(),
    ),
  );
  return new Map(
    perMailbox
      .flat()
      .map(({ _id: { queue, letter }, count, poisoned, newest }) => [
        letter === null ? queue : `${queue} ${letter}`,
        { count, poisoned: newest === null ? null : { count: poisoned, newest } },
      ]),
  );
}
