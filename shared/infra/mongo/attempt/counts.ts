import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { AttemptStatus, SubmitSource } from '#shared/attempt/attempt.ts';
import { attempts } from './collections.ts';

/** Totals of the attempts that have the same status and submit source. */
export interface AttemptCount {
  status: AttemptStatus;
  submittedBy: SubmitSource | null;
  attempts: number;
  linked: number;
  keyed: number;
  scored: number;
  released: number;
  questions: number;
  answers: number;
  graded: number;
  events: number;
}

/** The index of the attempts of each status. That of graded ones holds all that is counted. */
const INDEX_OF: Readonly<Record<AttemptStatus, string>> = {
  IN_PROGRESS: 'overdue',
  SUBMITTED: 'ungraded_of_exam',
  GRADED: 'counts_of_graded',
};

/**
 * Counts all attempts by status and submit source. Each status is counted by a read of its own, so an attempt that changes its status
 * meanwhile may be in two counts or in none.
 */
export async function countAttempts(mongo: Mongo): Promise<AttemptCount[]> {
  const counted = Object.entries(INDEX_OF).map(([status, hint]) => countOf(mongo, status as AttemptStatus, hint));
  return (await Promise.all(counted)).flat();
}

function countOf(mongo: Mongo, status: AttemptStatus, hint: string): Promise<AttemptCount[]> {
  const whether = (path: string) => ({ $sum: { $cond: [path, 1, 0] } });
  return attempts(mongo)
    .aggregate<AttemptCount>(
      [
        { $match: { status } },
        {
          $group: {
            _id: { status: '$status', submittedBy: '$submittedBy' },
            attempts: { $sum: 1 },
            linked: whether('$tally.linked'),
            keyed: whether('$tally.keyed'),
            scored: whether('$tally.scored'),
            released: whether('$tally.released'),
            questions: { $sum: '$tally.questions' },
            answers: { $sum: '$tally.answers' },
            graded: { $sum: '$tally.graded' },
            events: { $sum: '$eventSeq' },
          },
        },
        { $addFields: { status: '$_id.status', submittedBy: { $ifNull: ['$_id.submittedBy', null] } } },
        { $project: { _id: 0 } },
      ],
      { hint, maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .toArray();
}
