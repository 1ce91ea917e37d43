import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { Stale } from '#infra/mongo/stale.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import type { Grading } from '#shared/attempt/scoring/grade-attempt.ts';
import { attempts, eventRows } from './collections.ts';
import { placeEvent } from './place-event.ts';

export interface GradeWrite {
  /** As it was loaded: the write holds only if nobody has written since. */
  attempt: Attempt;
  grading: Grading;
  /** SUBMIT or TIMEOUT. */
  event: Omit<AttemptEvent, 'seq'>;
  /** The copied release time, where the attempt takes it over with its grade. */
  releasedAt: Date | null;
}

/** SUBMITTED → GRADED with scores, totals and the terminal event, in the caller's transaction. Throws Stale. */
export async function storeGrade(mongo: Mongo, write: GradeWrite, session: ClientSession): Promise<void> {
  const { attempt, grading } = write;
  const placed = placeEvent(attempt, write.event);
  const scores: Record<string, unknown> = {};
  let graded = 0;
  for (const [key, grade] of Object.entries(grading.answers)) {
    scores[`answers.${key}.isCorrect`] = grade.isCorrect;
    scores[`answers.${key}.score`] = grade.score;
    if (grade.score !== null) graded += 1;
  }
  const written = await attempts(mongo).updateOne(
    { _id: attempt._id, stamp: attempt.stamp, status: 'SUBMITTED' },
    {
      $set: {
        ...scores,
        ...grading.totals,
        status: 'GRADED',
        stamp: newStamp(),
        events: placed.tail,
        eventSeq: placed.eventSeq,
        'exam.resultsReleasedAt': write.releasedAt,
        'tally.scored': true,
        'tally.released': write.releasedAt !== null,
        'tally.graded': graded,
      },
    },
    { session },
  );
  if (written.matchedCount !== 1) throw new Stale(`attempt ${attempt._id}`);
  if (placed.rows.length > 0) await eventRows(mongo).insertMany(placed.rows, { session });
}
