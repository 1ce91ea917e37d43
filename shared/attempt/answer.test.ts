import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { sampleOptions, sampleQuestion } from '#testing/stored/sample-attempt.ts';
import { answerBytes, answerFaults, answerFields, fitAnswer, pickAnswer, type SaveBody } from './answer.ts';
import type { Question } from './question.ts';

const single = sampleQuestion();
const group = sampleQuestion({ type: 'TRUE_FALSE_GROUP' });
const text = sampleQuestion({ type: 'ESSAY', options: [] });

/** The stored content, or the paths of the faults. */
function read(body: Omit<SaveBody, 'questionId'>, question: Question = single): unknown {
  const picked = pickAnswer({ questionId: question.questionId, ...body });
  const content = isRejection(picked) ? picked : fitAnswer(picked, question);
  if (!isRejection(content)) return content;
  return [content.rejected, ...(content.details ?? []).map(({ path }) => path)];
}

t.test('nested or at the top level, exactly as sent', async (t) => {
  t.strictSame(read({ answer: { selectedOptionIds: ['a'] } }), { selected: ['a'] });
  t.strictSame(read({ selectedOptionIds: ['a'] }), { selected: ['a'] });
  t.strictSame(read({ answer: null, selectedOptionIds: ['a'], textAnswer: null }), { selected: ['a'] });
  t.strictSame(read({ selectedOptionIds: [] }), { selected: [] }, 'an answer taken back');
  t.strictSame(read({ textAnswer: ' $x \u0000 Á ' }, text), { text: ' $x \u0000 Á ' });
  const judged = [{ statementId: 'a', value: true }, { statementId: 'b' }, { statementId: 'c', value: null }];
  t.strictSame(read({ statementAnswers: judged }, group), {
    statements: [
      { statementId: 'a', value: true },
      { statementId: 'b', value: null },
      { statementId: 'c', value: null },
    ],
  });
});

t.test('both places, none, or two kinds', async (t) => {
  const refused = (...paths: string[]) => ['VALIDATION_FAILED', ...paths];
  t.strictSame(read({ answer: { selectedOptionIds: ['a'] }, selectedOptionIds: ['a'] }), refused('/answer'));
  t.strictSame(read({ answer: {}, textAnswer: 'x' }), refused('/answer'));
  t.strictSame(read({}), refused(''));
  t.strictSame(read({ answer: {} }), refused('/answer'));
  t.strictSame(read({ selectedOptionIds: ['a'], textAnswer: 'x' }), refused(''));
});

t.test('the kind that fits, and ids that the question has', async (t) => {
  const refused = (...paths: string[]) => ['VALIDATION_FAILED', ...paths];
  t.strictSame(read({ textAnswer: 'a' }), refused('/textAnswer'));
  t.strictSame(read({ answer: { selectedOptionIds: ['a'] } }, group), refused('/answer/selectedOptionIds'));
  t.strictSame(read({ selectedOptionIds: ['a'] }, text), refused('/selectedOptionIds'));
  t.strictSame(
    read({ selectedOptionIds: ['y', 'a', 'z'] }, sampleQuestion({ type: 'MULTIPLE_CHOICE' })),
    refused('/selectedOptionIds/0', '/selectedOptionIds/2'),
  );
  t.strictSame(read({ selectedOptionIds: ['a', 'b'] }), refused('/selectedOptionIds'));
  t.strictSame(read({ selectedOptionIds: ['a', 'a'] }), { selected: ['a', 'a'] }, 'one option, said twice');
  const judge = (...ids: string[]) => ({ statementAnswers: ids.map((statementId) => ({ statementId, value: true })) });
  t.strictSame(read(judge('a', 'z'), group), refused('/statementAnswers/1/statementId'));
  t.strictSame(read(judge('a', 'b', 'a'), group), refused('/statementAnswers/2/statementId'));
  const odd = sampleQuestion({ options: sampleOptions('a') });
  t.strictSame(read({ selectedOptionIds: ['__proto__'] }, odd), refused('/selectedOptionIds/0'));
});

t.test('bytes are those of JSON in UTF-8', async (t) => {
  t.equal(answerBytes({ text: 'é' }), Buffer.byteLength('{"text":"é"}'));
});

t.test('a reply has the kind that was given, and never loses a text', async (t) => {
  t.strictSame(answerFields({ selected: [] }), { selectedOptionIds: [] });
  t.strictSame(answerFields({ text: '' }), { textAnswer: '' });
  t.throws(() => answerFields({}));
});

t.test('a body that is refused already is told of its answer as well, where its shape is right', async (t) => {
  const elsewhere = [{ path: '/questionId', message: 'must be string' }];
  const paths = (body: unknown, known = elsewhere) => answerFaults(body, known).map(({ path }) => path);
  const twice = { questionId: 5, answer: { textAnswer: 'a' }, textAnswer: 'b' };
  t.strictSame(paths(twice), ['/answer']);
  t.strictSame(paths({ questionId: 5 }), ['']);
  t.strictSame(paths({ questionId: 5, answer: { textAnswer: 'a' } }), []);
  for (const path of ['', '/answer', '/answer/textAnswer', '/textAnswer', '/selectedOptionIds/0']) {
    t.strictSame(paths(twice, [{ path, message: 'is broken' }]), [], path);
  }
  for (const body of [null, 5, 'text']) t.strictSame(paths(body), []);
});
