import t from 'tap';
import { mathsPaper } from './paper.ts';
import { openStandIn } from './stand-in.ts';
import { schoolYear } from './students.ts';

const CONTEXT = '/v1/questions/ai-classify/context';

t.test("the demo's question bank returns the questions of the paper without their keys", async (t) => {
  const questions = mathsPaper();
  const standIn = await openStandIn(0, { students: [], questions });
  t.teardown(standIn.close);
  const ids = questions.map(({ questionId }) => questionId);
  const ask = async (questionIds: string[]) => {
    const reply = await fetch(`${standIn.url}${CONTEXT}`, { method: 'POST', body: JSON.stringify({ questionIds }) });
    const text = await reply.text();
    t.notMatch(text, /answerKey|correctOptionIds|acceptedTexts|numericAnswers/);
    return JSON.parse(text).data.questions as { id: string; contentText: string }[];
  };
  t.same(await ask(['of another paper']), []);
  t.equal(standIn.questionsAsked(), 0);
  const known = await ask(ids);
  t.same(
    known.map(({ id }) => id),
    ids,
  );
  t.equal(known[0]?.contentText, questions[0]?.contentText);
  await ask(ids.slice(0, 3));
  t.equal(standIn.questionsAsked(), ids.length, 'a question is counted once');
});

t.test("the demo's profile service returns the parents of its students and answers 403 for others", async (t) => {
  const students = schoolYear(60, 'stand-in');
  const standIn = await openStandIn(0, { students, questions: [] });
  t.teardown(standIn.close);
  const ask = (id: string) => fetch(`${standIn.url}/v1/students/${id}/parents`);
  const withTwo = students.find(({ parentIds }) => parentIds.length === 2);
  const without = students.find(({ parentIds }) => parentIds.length === 0);
  t.match(await (await ask(withTwo?.id ?? '')).json(), { data: { parentIds: withTwo?.parentIds } });
  t.equal((await ask(without?.id ?? '')).status, 404);
  t.equal((await ask('of another school')).status, 403);
  t.equal((await fetch(`${standIn.url}${CONTEXT}`)).status, 404);
});
