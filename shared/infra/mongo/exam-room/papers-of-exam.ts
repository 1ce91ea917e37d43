import { attempts } from '#infra/mongo/attempt/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { examinedBy } from './examined.ts';

/** Returns the ids of the papers that the attempts of an exam have copied, for the attempts that the caller examines. */
export async function papersOfExam(mongo: Mongo, examId: string, by: Examiner): Promise<string[]> {
  const found = await attempts(mongo)
    .aggregate<{ _id: string }>([{ $match: { examId, ...examinedBy(by) } }, { $group: { _id: '$paperId' } }], {
      hint: 'of_exam',
      maxTimeMS: QUERY_LIMIT_MS * 4,
    })
    .toArray();
  return found.map(({ _id }) => _id);
}
