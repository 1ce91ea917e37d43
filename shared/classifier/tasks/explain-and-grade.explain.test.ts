import t from 'tap';
import { explainPayload, explainTask } from './explain-and-grade.ts';

t.test('an explanation is written in the requested language, and in Vietnamese if none is requested', async (t) => {
  const question = { content: '1 + 1 = ?' };
  t.match(explainTask(question).data, { ...question, language: 'vi' });
  t.match(explainTask({ ...question, language: 'en' }).data, { language: 'en' });
});

t.test('of a generated question the model receives what an explanation needs, and not its solution', async (t) => {
  const asked = { content: '1 + 1 = ?', options: [{ id: 'a', label: 'A', content: '2' }], answerKey: { x: ['a'] } };
  const generated = { tempId: 'q1', type: 'ESSAY', contentText: '1 + 1 = ?', explanation: 'Hai', difficulty: 'dễ' };
  t.strictSame(explainPayload({ ...generated, ...asked, language: 'en' }), { ...asked, language: 'en' });
});
