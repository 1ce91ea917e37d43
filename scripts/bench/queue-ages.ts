import { setTimeout as delay } from 'node:timers/promises';
import type { Mongo } from '#infra/mongo/connect.ts';
import { MAILBOX_OF } from '#infra/mongo/mailbox/commands.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import { SECOND } from '#shared/kernel/time.ts';

const GRADING: Queue = 'grading';
const NOTICES: Queue = 'gradenotices:student';

/** The end of both queues, and the ages (ms) of their oldest due commands at each sample. */
export interface Drained {
  /** Times (Unix ms) at which the last command was settled, by MongoDB's clock. */
  gradedAt: number;
  announcedAt: number;
  ages: { grading: number[]; notices: number[] };
  /** Commands that ended well. */
  grades: number;
  notices: number;
}

export interface Backlog {
  /** Waits until both queues are empty. @throws Error if commands remain after LIMIT_MS */
  drained(): Promise<Drained>;
}

/** Interval of the samples (ms): two reads by an index each, which hardly slow the run. */
const EVERY_MS = SECOND;
const LIMIT_MS = 300 * SECOND;

/** Samples the ages of the grading queue and of the notices to students until they are drained. */
export function openBacklog(mongo: Mongo): Backlog {
  const openedAt = new Date();
  const ages = { grading: [] as number[], notices: [] as number[] };
  let draining = false;

  const mailbox = (queue: Queue) => mongo.db.collection<Command>(MAILBOX_OF[queue]);

  async function ageOf(queue: Queue): Promise<number> {
    const now = new Date();
    const due = { queue, status: 'PENDING', nextRunAt: { $lte: now } } as const;
    const oldest = await mailbox(queue).findOne(due, { sort: { nextRunAt: 1 }, projection: { nextRunAt: 1 } });
    return oldest === null ? 0 : now.getTime() - oldest.nextRunAt.getTime();
  }

  async function sample(): Promise<void> {
    while (!draining) {
      ages.grading.push(await ageOf(GRADING));
      ages.notices.push(await ageOf(NOTICES));
      await delay(EVERY_MS);
    }
  }

  async function untilEmpty(queue: Queue, into: number[], giveUpAt: number): Promise<void> {
    while ((await mailbox(queue).findOne({ queue, status: 'PENDING' }, { projection: { _id: 1 } })) !== null) {
      if (performance.now() > giveUpAt) throw new Error(`${queue} is not empty after ${LIMIT_MS / SECOND} s`);
      into.push(await ageOf(queue));
      await delay(EVERY_MS / 4);
    }
  }

  async function settled(queue: Queue): Promise<{ at: number; count: number }> {
    const [found] = await mailbox(queue)
      .aggregate<{ at: Date; count: number }>([
        { $match: { queue, status: { $in: ['DONE', 'DELIVERED'] }, settledAt: { $gte: openedAt } } },
        { $group: { _id: null, at: { $max: '$settledAt' }, count: { $sum: 1 } } },
      ])
      .toArray();
    return { at: found?.at.getTime() ?? Number.NaN, count: found?.count ?? 0 };
  }

  const sampling = sample();
  // `drained` reports the error of a sample; until then no other code waits for it.
  sampling.catch(() => undefined);
  return {
    async drained() {
      draining = true;
      await sampling;
      const giveUpAt = performance.now() + LIMIT_MS;
      await untilEmpty(GRADING, ages.grading, giveUpAt);
      await untilEmpty(NOTICES, ages.notices, giveUpAt);
      const [graded, announced] = [await settled(GRADING), await settled(NOTICES)];
      return {
        gradedAt: graded.at,
        announcedAt: announced.at,
        ages,
        grades: graded.count,
        notices: announced.count,
      };
    },
  };
}
