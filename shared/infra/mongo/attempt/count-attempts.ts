import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { AttemptStatus, SubmitSource } from '#shared/attempt/attempt.ts';
import { attempts } from './collections.ts';

/** Attempts that agree in status and submit source, counted together with what they hold. */
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

const STATUSES: readonly AttemptStatus[] = ['IN_PROGRESS', 'SUBMITTED', 'GRADED'];

/** Counted from the `summary` index alone; no attempt is read. */
export async function countAttempts(mongo: Mongo): Promise<AttemptCount[]> {
  const whether = (path: string) => ({ $sum: { $cond: [path, 1, 0] } });
  return attempts(mongo)
    .aggregate<AttemptCount>(
      [
        { $match: { status: { $in: STATUSES } } },
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
      { hint: 'summary', maxTimeMS: QUERY_LIMIT_MS * 4 },
    )
    .toArray();
}
