import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { Stale } from '#infra/mongo/stale.ts';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import type { HandoffEffects } from '#shared/attempt/handoff.ts';
import { attempts, eventRows } from './collections.ts';
import { placeEvent } from './place-event.ts';

/** A grade by hand: the answer's score, the recomputed totals and its event, in the caller's transaction. Throws Stale. */
export async function storeHandoff(
  mongo: Mongo,
  write: { attempt: Attempt; effects: HandoffEffects; event: Omit<AttemptEvent, 'seq'> },
  session: ClientSession,
): Promise<void> {
  const { attempt, effects } = write;
  const placed = placeEvent(attempt, write.event);
  const wasGraded = attempt.answers[effects.answerKey]?.score != null;
  const written = await attempts(mongo).updateOne(
    { _id: attempt._id, stamp: attempt.stamp, status: 'GRADED' },
    {
      $set: {
        [`answers.${effects.answerKey}.isCorrect`]: effects.grade.isCorrect,
        [`answers.${effects.answerKey}.score`]: effects.grade.score,
        ...effects.totals,
        stamp: newStamp(),
        events: placed.tail,
        eventSeq: placed.eventSeq,
        'tally.graded': attempt.tally.graded + (wasGraded ? 0 : 1),
      },
    },
    { session },
  );
  if (written.matchedCount !== 1) throw new Stale(`attempt ${attempt._id}`);
  if (placed.rows.length > 0) await eventRows(mongo).insertMany(placed.rows, { session });
}
