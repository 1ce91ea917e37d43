import fc from 'fast-check';
import t from 'tap';
import { derivedId } from '#shared/kernel/ids.ts';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { paperIndexOf, questionIdAt } from './question.ts';

const paper = samplePaper({}, { id: 'given-id' }, { id: 'question-3' });
const UNNAMED = { id: null };
const ATTEMPT = {
  _id: '019f0000-0000-7000-8000-000000000001',
  seed: 'c2VlZCBvZiB0aGUgdGVzdA',
  seededIds: true,
} as const;
const EARLIER = { _id: ATTEMPT._id, seed: ATTEMPT.seed };

t.test('a question keeps the id that was sent, else gets a fixed id per attempt', async (t) => {
  t.equal(questionIdAt(ATTEMPT, 1, { id: 'given-id' }), 'given-id');
  const made = questionIdAt(ATTEMPT, 0, UNNAMED);
  t.equal(questionIdAt({ ...ATTEMPT }, 0, UNNAMED), made);
  t.not(questionIdAt({ ...ATTEMPT, _id: 'attempt-2' }, 0, UNNAMED), made);
  t.not(questionIdAt({ ...ATTEMPT, seed: 'another seed' }, 0, UNNAMED), made);
});

t.test('the ids of an attempt are distinct and follow from no fact that a student knows', async () => {
  fc.assert(
    fc.property(fc.uuid({ version: 7 }), fc.base64String({ minLength: 22 }), (_id, seed) => {
      const places = [...Array(500).keys()];
      const ids = new Set(places.map((place) => questionIdAt({ _id, seed, seededIds: true }, place, UNNAMED)));
      return ids.size === places.length && !places.some((place) => ids.has(derivedId(_id, `question:${place}`)));
    }),
    { numRuns: 20 },
  );
});

t.test('an attempt of an earlier version keeps the ids that its clients know', async (t) => {
  t.equal(questionIdAt(EARLIER, 0, UNNAMED), '019f0000-0000-777d-a2a6-247c73765992');
  t.equal(paperIndexOf(EARLIER, paper, '019f0000-0000-777d-a2a6-247c73765992'), 0);
});

t.test('a question is found by its questionId and by its id', async (t) => {
  t.equal(paperIndexOf(ATTEMPT, paper, 'question-2'), 1);
  t.equal(paperIndexOf(ATTEMPT, paper, 'given-id'), 1);
  t.equal(paperIndexOf(ATTEMPT, paper, 'question-3'), 2);
  t.equal(paperIndexOf(ATTEMPT, paper, questionIdAt(ATTEMPT, 0, UNNAMED)), 0);
  t.equal(paperIndexOf(ATTEMPT, paper, questionIdAt(EARLIER, 0, UNNAMED)), null, 'a guess finds no place');
  t.equal(paperIndexOf(ATTEMPT, paper, ''), null);
});
