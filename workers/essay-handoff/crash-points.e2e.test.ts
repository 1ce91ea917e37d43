import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { graded, postHandoff, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { type CrashScenario, crashSuite } from '#testing/suites/crash-suite.ts';

const HANDOFF: CrashScenario = {
  name: 'handoff',
  status: 'DONE',
  leastPoints: 10,
  post: async (mongo) => postHandoff(mongo, await storeAttempt(mongo, graded())),
  async check(t, { mongo }, { subject }) {
    const attempt = await attempts(mongo).findOne({ _id: subject });
    const totals = { totalScore: 2.5, correctCount: 1, wrongCount: 1, pendingManualCount: 0 };
    t.match(attempt, { ...totals, eventSeq: 2, answers: { q1: { score: 1.5 } } });
    t.strictSame(
      attempt?.events.map(({ type }) => type),
      ['START', 'ESSAY_GRADE_HANDOFF'],
      'applied once',
    );
  },
};

t.test('a worker killed at any await of its run loses nothing and doubles nothing', (t) =>
  crashSuite(t, 'essayhandoff', [HANDOFF]),
);
