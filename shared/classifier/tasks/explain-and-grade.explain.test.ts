import t from 'tap';
import { explainTask } from './explain-and-grade.ts';

t.test('an explanation is written in the requested language, and in Vietnamese if none is requested', async (t) => {
  const question = { content: '1 + 1 = ?' };
  t.match(explainTask(question).data, { ...question, language: 'vi' });
  t.match(explainTask({ ...question, language: 'en' }).data, { language: 'en' });
});
