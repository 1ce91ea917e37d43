import t from 'tap';
import { paperIndexOf, questionIdAt } from '#shared/attempt/question.ts';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { freshAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { openAttemptRefs } from './attempts.ts';
import { attempts } from './collections.ts';

const mongo = await openTestMongo(t);
const paper = samplePaper({}, {});

t.test('a ref finds a question by its id, whether it was read or cached', async (t) => {
  const attempt = freshAttempt();
  await attempts(mongo).insertOne(attempt);
  const id = questionIdAt(attempt, 1, { id: null });
  const [reader, starter] = [openAttemptRefs(mongo, 10), openAttemptRefs(mongo, 10)];
  starter.add(attempt);
  for (const refs of [reader, reader, starter]) {
    const ref = await refs.find(attempt);
    t.equal(ref && paperIndexOf(ref, paper, id), 1);
  }
});
