import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newId } from '#shared/kernel/ids.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';

const BATCH = 2_000;
const STUDENTS_OF_EXAM = 500;

/** Stores graded attempts until there are `total` of them. They have no answers: what grows is the collection and its indexes. */
export async function storeAttempts(mongo: Mongo, total: number): Promise<void> {
  for (let stored = await attempts(mongo).countDocuments({ status: 'GRADED' }); stored < total; stored += BATCH) {
    const rows = Array.from({ length: Math.min(BATCH, total - stored) }, (_, index) => {
      const n = stored + index;
      const studentId = `crowd-${n}`;
      const examId = `crowd-exam-${Math.floor(n / STUDENTS_OF_EXAM)}`;
      return sampleAttempt({ _id: newId(Date.now()), studentId, examId, startKeys: [studentId], status: 'GRADED' });
    });
    await attempts(mongo).insertMany(rows, { ordered: false });
  }
}
