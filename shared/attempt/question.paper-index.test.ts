import t from 'tap';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { paperIndexOf, questionIdAt } from './question.ts';

const paper = samplePaper({}, { id: 'given-id' }, { id: 'question-3' });

t.test('a question keeps the id that was sent, else gets a fixed id per attempt', async (t) => {
  t.equal(questionIdAt('attempt-1', 1, { id: 'given-id' }), 'given-id');
  const made = questionIdAt('attempt-1', 0, { id: null });
  t.equal(questionIdAt('attempt-1', 0, { id: null }), made);
  t.not(questionIdAt('attempt-2', 0, { id: null }), made);
  t.not(questionIdAt('attempt-1', 1, { id: null }), made);
});

t.test('a question is found by its questionId and by its id', async (t) => {
  t.equal(paperIndexOf('attempt-1', paper, 'question-2'), 1);
  t.equal(paperIndexOf('attempt-1', paper, 'given-id'), 1);
  t.equal(paperIndexOf('attempt-1', paper, 'question-3'), 2);
  t.equal(paperIndexOf('attempt-1', paper, questionIdAt('attempt-1', 0, { id: null })), 0);
  t.equal(paperIndexOf('attempt-1', paper, questionIdAt('attempt-2', 0, { id: null })), null);
  t.equal(paperIndexOf('attempt-1', paper, ''), null);
});
