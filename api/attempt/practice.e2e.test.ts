import t from 'tap';
import { attemptClient, choice, essay } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { workers: ['grading', 'essayhandoff'], inside: true, neighbours: false });
const client = await attemptClient(cluster);

t.test('practice questions are graded but not counted, and accept a handoff of score 0', async (t) => {
  const practice = [
    choice('right', { score: 0 }),
    choice('wrong', { score: 0, scoringRule: { mode: 'PARTIAL', incorrectPenalty: 1, minScore: -5 } }),
    choice('blank', { score: 0 }),
    essay('letter', { score: 0, scoringRule: { mode: 'MANUAL' } }),
  ];
  for (const [questions, totalScore, scorePercent] of [
    [[choice('real', { score: 2 }), ...practice], 2, 100],
    [practice, 0, null],
  ] as const) {
    const { student, id, attempt } = await client.sitting({ questions });
    const counts = { correctCount: totalScore === 0 ? 0 : 1, wrongCount: 0 };
    t.equal(attempt.maxScore, totalScore);
    if (totalScore > 0) await student.save(id, { questionId: 'real', selectedOptionIds: ['a'] });
    await student.save(id, { questionId: 'right', selectedOptionIds: ['a'] });
    await student.save(id, { questionId: 'wrong', selectedOptionIds: ['b'] });
    await student.save(id, { questionId: 'letter', textAnswer: 'words' });
    const { data } = await student.submit(id);
    t.match(data, { status: 'GRADED', totalScore, ...counts, pendingManualCount: 1 });
    const answers = new Map(data.answers.map((one: { questionId: string }) => [one.questionId, one]));
    t.match(answers.get('right'), { score: 0, isCorrect: true });
    t.match(answers.get('wrong'), { score: 0, isCorrect: false });
    t.match(answers.get('letter'), { score: null, isCorrect: null });
    const handoff = await client.sendHandoff(id, { questionId: 'letter', score: 0, maxScore: 0 });
    t.match(handoff, { status: 200, data: { applied: true } });
    const result = await student.result(id);
    t.equal(result.data.scorePercent, scorePercent);
    t.match(result.data.attempt, { totalScore, ...counts, pendingManualCount: 0 });
  }
});
