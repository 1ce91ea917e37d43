import t from 'tap';
import { attemptClient, choice, essay, numeric, shortText, statements } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, workers: [], neighbours: false });
const client = await attemptClient(cluster);
const FIELD = {
  one: 'selectedOptionIds',
  many: 'selectedOptionIds',
  group: 'statementAnswers',
  text: 'textAnswer',
  number: 'textAnswer',
  essay: 'textAnswer',
} as const;
const QUESTIONS = [
  choice('one'),
  choice('many', { type: 'MULTIPLE_CHOICE' }),
  statements('group', [true, false]),
  shortText('text', ['x']),
  numeric('number', [{ value: 1 }]),
  essay(),
];

const FILLED = { selectedOptionIds: ['a'], statementAnswers: [{ statementId: 's1', value: true }], textAnswer: 'x' };
const EMPTIES: Record<string, unknown>[] = [
  { selectedOptionIds: [], statementAnswers: [], textAnswer: '' },
  { selectedOptionIds: null, statementAnswers: null, textAnswer: null },
  { selectedOptionIds: null, statementAnswers: [], textAnswer: '' },
];

t.test('ignores empty members beside a filled one, and takes all-empty members as an empty answer', async (t) => {
  const { student, id } = await client.sitting({ questions: QUESTIONS });
  for (const [questionId, field] of Object.entries(FIELD)) {
    const stored = async (body: Record<string, unknown>) => {
      const { status, data } = await student.save(id, { questionId, ...body });
      if (status !== 200) return status;
      return data.answers.find((one: { questionId: string }) => one.questionId === questionId).answer;
    };
    const filled = { [field]: FILLED[field] };
    const blank = { [field]: field === 'textAnswer' ? '' : [] };
    const wrong = field === 'textAnswer' ? { selectedOptionIds: ['a'] } : { textAnswer: 'x' };
    for (const empty of EMPTIES) {
      t.same(await stored({ answer: { ...empty, ...filled } }), filled, `${questionId}, nested`);
      t.same(await stored({ answer: empty }), blank, `${questionId}, nested and empty`);
      t.same(await stored({ ...empty, ...filled }), filled, `${questionId}, at the top`);
      t.same(await stored(empty), blank, `${questionId}, at the top and empty`);
      t.same(await stored({ ...empty, answer: filled }), filled, `${questionId}, nested beside empty members`);
      t.equal(
        await stored({ answer: { ...empty, ...wrong } }),
        400,
        `${questionId}, a filled member of the wrong kind`,
      );
      t.equal(await stored({ ...empty, ...filled, ...wrong }), 400, `${questionId}, two filled members`);
      t.equal(await stored({ ...empty, ...filled, answer: filled }), 400, `${questionId}, filled in both places`);
    }
  }
});
