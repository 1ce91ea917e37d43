import type { Command } from '../../../kernel/command.ts';
import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { MAILBOXES } from './mailbox.ts';

/** How much lies in one queue. `waiting` holds `due`; what is leased now is `running`. */
export interface QueueDepth {
  queue: string;
  waiting: number;
  due: number;
  running: number;
  dead: number;
  /** Age of the command that has been due longest, in milliseconds; null when none is due. */
  oldestDueMs: number | null;
}

/** Of every queue that holds anything. Settled commands are not read: `due` and `dead` are small partial indexes. */
export async function queueDepths(mongo: Mongo, now: number): Promise<QueueDepth[]> {
  const perMailbox = await Promise.all(MAILBOXES.map((name) => depthsOf(mongo, name, now)));
  return perMailbox.flat().sort((a, b) => a.queue.localeCompare(b.queue));
}

async function depthsOf(mongo: Mongo, mailbox: string, now: number): Promise<QueueDepth[]> {
  const commands = mongo.db.collection<Command>(mailbox);
  const at = new Date(now);
  const isDue = { $and: [{ $eq: ['$lockedUntil', null] }, { $lte: ['$nextRunAt', at] }] };
  const isLeased = { $gt: ['$lockedUntil', at] };
  // The partial indexes hold nothing else, but a planner does not see that without the leading field.
  const from = (hint: string) => ({ hint, maxTimeMS: QUERY_LIMIT_MS });
  const [pending, dead] = await Promise.all([
    commands
      .aggregate<{ _id: string; pending: number; due: number; running: number; oldest: Date | null }>(
        [
          { $match: { status: 'PENDING' } },
          {
            $group: {
              _id: '$queue',
              pending: { $sum: 1 },
              due: { $sum: { $cond: [isDue, 1, 0] } },
              running: { $sum: { $cond: [isLeased, 1, 0] } },
              oldest: { $min: { $cond: [isDue, '$nextRunAt', null] } },
            },
          },
        ],
        from('due'),
      )
      .toArray(),
    commands
      .aggregate<{ _id: string; dead: number }>(
        [{ $match: { status: 'DEAD' } }, { $group: { _id: '$queue', dead: { $sum: 1 } } }],
        from('dead'),
      )
      .toArray(),
  ]);
  const queues = new Set([...pending, ...dead].map((group) => group._id));
  return [...queues].map((queue) => {
    const waiting = pending.find((group) => group._id === queue);
    return {
      queue,
      waiting: (waiting?.pending ?? 0) - (waiting?.running ?? 0),
      due: waiting?.due ?? 0,
      running: waiting?.running ?? 0,
      dead: dead.find((group) => group._id === queue)?.dead ?? 0,
      oldestDueMs: waiting?.oldest == null ? null : Math.max(0, now - waiting.oldest.getTime()),
    };
  });
}
