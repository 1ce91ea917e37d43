import type { Collection } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isLeftAlone, type WorkerRow } from '#infra/mongo/live-workers.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { actorOf, MAILBOXES, QUEUES } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/** How much lies in one queue; no count goes beyond 10,000. */
export interface QueueDepth {
  queue: Queue;
  /** Not settled and not being run: what is `due`, what rests, and what waits for a neighbour to be configured. */
  waiting: number;
  /** Could be run now. Of a killed worker's commands, those whose lease is over. */
  due: number;
  /** Under a lease that is not over. */
  running: number;
  dead: number;
  /** Age of the command that has been due longest, in milliseconds; null when none is due. */
  oldestDueMs: number | null;
}

/** A deeper queue is told as this deep: a scrape must cost little just when everything stands. */
const DEPTH_LIMIT = 10_000;
/** What is leased comes due within one lease: before nearly all that rests. */
const NEXT_DUE = 1_000;
const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

/**
 * Of every queue, each count from a partial index and up to a limit. `live` are the worker processes: a queue that its
 * actor leaves alone (a neighbour is not configured) has nothing due, however long its commands have lain there.
 */
export async function queueDepths(
  mongo: Mongo,
  now: number,
  live: readonly WorkerRow[],
  limit = DEPTH_LIMIT,
): Promise<QueueDepth[]> {
  const dead = await deadPerQueue(mongo, limit);
  const depths: QueueDepth[] = [];
  // One after another: the connections are there for those who sit an exam.
  for (const queue of QUEUES) {
    const depth = await depthOf(mongo, queue, new Date(now), limit);
    const parked = isLeftAlone(queue, actorOf(queue), live);
    depths.push({
      queue,
      waiting: depth.due + depth.resting,
      running: depth.running,
      dead: dead.get(queue) ?? 0,
      due: parked ? 0 : depth.due,
      oldestDueMs: parked || depth.oldest === null ? null : Math.max(0, now - depth.oldest.getTime()),
    });
  }
  return depths.sort((a, b) => a.queue.localeCompare(b.queue));
}

async function depthOf(mongo: Mongo, queue: Queue, at: Date, limit: number) {
  const commands = mailboxOf(mongo, queue) as Collection<Command>;
  // Of a leased command nextRunAt is the end of the lease: the same bound tells what a killed worker left.
  const due = { queue, status: 'PENDING', nextRunAt: { $lte: at } } as const;
  const later = { queue, status: 'PENDING', nextRunAt: { $gt: at } } as const;
  const [dueCount, laterCount, running, oldest] = await Promise.all([
    commands.countDocuments(due, { limit, ...BOUND }),
    commands.countDocuments(later, { limit, ...BOUND }),
    commands
      .aggregate<{ count: number }>(
        [
          { $match: later },
          { $sort: { nextRunAt: 1 } },
          { $limit: NEXT_DUE },
          { $match: { lockedUntil: { $gt: at } } },
          { $count: 'count' },
        ],
        BOUND,
      )
      .next(),
    commands.findOne(due, { projection: { _id: 0, nextRunAt: 1 }, sort: { nextRunAt: 1 }, ...BOUND }),
  ]);
  const runningCount = running?.count ?? 0;
  return {
    due: dueCount,
    running: runningCount,
    resting: Math.max(0, laterCount - runningCount),
    oldest: oldest?.nextRunAt ?? null,
  };
}

async function deadPerQueue(mongo: Mongo, limit: number): Promise<Map<string, number>> {
  const perMailbox = await Promise.all(
    MAILBOXES.map((name) =>
      mongo.db
        .collection<Command>(name)
        .aggregate<{ _id: string; count: number }>(
          [{ $match: { status: 'DEAD' } }, { $limit: limit }, { $group: { _id: '$queue', count: { $sum: 1 } } }],
          // The partial index holds nothing else, but not every planner takes it for one field of two.
          { hint: 'dead', ...BOUND },
        )
        .toArray(),
    ),
  );
  return new Map(perMailbox.flat().map(({ _id, count }) => [_id, count]));
}
