import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { freshAttempt, postGrading, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { auditExamAttempts } from './audited-reads.ts';
import { readExam } from './exam.ts';
import { readExamAttempts } from './exam-attempts.ts';

t.test('no query of an exam scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  // A planner may scan a collection that is almost empty.
  await attempts(mongo).insertMany(Array.from({ length: 20 }, () => freshAttempt()));
  const attempt = await storeAttempt(mongo, { ...SUBMITTED, examId: 'exam-of-plans' });
  await postGrading(mongo, attempt);
  await postRelease(mongo, { examId: attempt.examId });
  seen.clear();
  const now = Date.now();
  const facts = { now, redis: 'up' } as const;
  for (const examId of [attempt.examId, 'unknown']) {
    await readExam(mongo, examId, now);
    for (const status of [null, 'SUBMITTED'] as const) {
      for (const student of [null, attempt.studentId]) {
        for (const after of [null, '0'])
          await readExamAttempts(mongo, { examId, status, student, after, limit: 2 }, facts);
      }
    }
  }
  await auditExamAttempts(mongo, { operator: 'an', now }, { examId: attempt.examId, student: null }, 1);
  await noneScans(t, mongo, seen, 16);
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values()) {
    const { pipeline, hint, limit } = filter.explainable;
    if (filter.collection !== 'attempts') continue;
    const stages = (await planOf(mongo, filter)).join(' < ');
    t.match(stages, `IXSCAN ${hint}`);
    if (pipeline !== undefined) t.notMatch(stages, /FETCH/, 'counts are answered from the index alone');
    else if (limit > 1 && hint !== 'attempt_number_of_student')
      t.notMatch(stages, /SORT/, 'a page is sorted by its index');
  }
});
