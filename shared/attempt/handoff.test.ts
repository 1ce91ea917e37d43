import fc from 'fast-check';
import t from 'tap';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import type { AttemptStatus, Grader } from './attempt.ts';
import { copyHandoff, decideHandoff, type HandoffBody } from './handoff.ts';
import { questionIdAt } from './question.ts';

const essay = { score: 2, type: 'ESSAY' as const, options: [], answerKey: {} };
const paper = samplePaper(
  { score: 1.3 },
  { ...essay, scoringRule: { mode: 'ESSAY' } },
  { ...essay, scoringRule: { mode: 'MANUAL' } },
);
const body: HandoffBody = { sourceEventId: 'event-1', questionId: 'question-2', score: 1.25, maxScore: 2 };
const NOW = new Date('2026-11-20T08:00:00Z');
const answers = {
  q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1.3 }),
  q1: sampleAnswer({ text: 'Bài làm' }),
};

function decide(overrides: Partial<HandoffBody> = {}, status: AttemptStatus = 'GRADED') {
  return decideHandoff(
    sampleAttempt({ status, answers, order: [0, 1, 2] }),
    paper,
    copyHandoff({ ...body, ...overrides }),
    NOW,
  );
}

function verdict(overrides: Partial<HandoffBody>, status?: AttemptStatus): string {
  const decision = decide(overrides, status);
  return decision.kind === 'refuse' ? decision.rejection.rejected : decision.kind;
}

t.test('copying a handoff copies the named fields and drops all others', async (t) => {
  const criterion = { id: 'c1', name: 'Ý', score: 1, maxScore: 2, comment: 'ok', weight: 3 };
  const sent = { ...body, feedback: 'ok', criteria: [criterion], occurredAt: '2026-05-04T10:00:00+07:00', extra: 1 };
  t.strictSame(copyHandoff(sent), {
    ...body,
    provider: null,
    model: null,
    occurredAt: '2026-05-04T03:00:00.000Z',
    feedback: 'ok',
    criteria: [{ id: 'c1', name: 'Ý', score: 1, maxScore: 2, comment: 'ok' }],
  });
});

t.test('an applied handoff sets the score and recomputes the totals of all answers', async (t) => {
  t.match(decide(), {
    kind: 'apply',
    paperIndex: 1,
    answerKey: 'q1',
    grade: { isCorrect: false, score: 1.25 },
    totals: { totalScore: 2.55, correctCount: 1, wrongCount: 2, pendingManualCount: 0 },
    metadata: { sourceEventId: 'event-1', score: 1.25 },
  });
  t.match(decide({ score: 2 }), { grade: { isCorrect: true, score: 2 }, totals: { correctCount: 2 } });
  t.match(decide({ score: 0 }), { grade: { isCorrect: false, score: 0 } });
});

t.test('the event of a handoff names the question by its questionId, however the sender named it', async (t) => {
  const attempt = sampleAttempt({ status: 'GRADED', answers, order: [0, 1, 2] });
  const id = questionIdAt(attempt, 1, { id: null });
  t.not(id, 'question-2');
  const decided = decideHandoff(attempt, paper, copyHandoff({ ...body, questionId: id }), NOW);
  t.match(decided, { kind: 'apply', paperIndex: 1, metadata: { questionId: 'question-2', score: 1.25 } });
});

t.test('a handoff of score 0 grades a practice question and changes no total', async (t) => {
  const practice = samplePaper({ score: 1.3 }, { ...essay, score: 0, scoringRule: { mode: 'MANUAL' } });
  const attempt = sampleAttempt({ status: 'GRADED', answers, order: [0, 1] });
  const grade = (score: number) => decideHandoff(attempt, practice, copyHandoff({ ...body, score, maxScore: 0 }), NOW);
  t.match(grade(0), {
    kind: 'apply',
    grade: { score: 0 },
    totals: { totalScore: 1.3, correctCount: 1, wrongCount: 0, pendingManualCount: 0 },
  });
  t.match(grade(0.1), { kind: 'refuse', rejection: { rejected: 'SCORE_OUT_OF_RANGE' } });
});

t.test('a handoff waits while the grading worker owns the scores', async (t) => {
  t.equal(verdict({}, 'SUBMITTED'), 'wait');
});

t.test('the rules of a handoff refuse in a fixed order', async (t) => {
  const wrong = { score: 9, maxScore: 9 };
  t.equal(verdict({ ...wrong, questionId: 'question-9' }, 'IN_PROGRESS'), 'ATTEMPT_NOT_SUBMITTED');
  for (const status of ['SUBMITTED', 'GRADED'] as const) {
    t.equal(verdict({ ...wrong, questionId: 'question-9' }, status), 'QUESTION_NOT_IN_ATTEMPT');
    t.equal(verdict({ ...wrong, questionId: 'question-1' }, status), 'QUESTION_NOT_MANUAL');
    t.equal(verdict({ ...wrong, questionId: 'question-3' }, status), 'ANSWER_NOT_FOUND');
    t.equal(verdict(wrong, status), 'SCORE_OUT_OF_RANGE');
  }
});

t.test('the score of a handoff must be within the scale of the question', async (t) => {
  for (const score of [2.000001, -0.000001, Number.NaN, Number.POSITIVE_INFINITY]) {
    t.equal(verdict({ score }), 'SCORE_OUT_OF_RANGE', String(score));
  }
  t.equal(verdict({ score: 1.5, maxScore: 1 }), 'SCORE_OUT_OF_RANGE', 'more than its own maxScore');
  t.equal(verdict({ score: 3, maxScore: 10 }), 'SCORE_OUT_OF_RANGE', 'more than the question is worth');
});

t.test('a handoff is not scaled if its maxScore differs from the score of the question', async (t) => {
  t.match(decide({ score: 1, maxScore: 10 }), { grade: { isCorrect: false, score: 1 }, metadata: { maxScore: 10 } });
  t.match(decide({ score: 1, maxScore: 1 }), { grade: { isCorrect: false, score: 1 } });
  t.match(decide({ score: 2, maxScore: 10 }), { grade: { isCorrect: true, score: 2 } });
  t.match(decide({ score: 0, maxScore: 0 }), { grade: { isCorrect: false, score: 0 } });
  fc.assert(
    fc.property(fc.double(), fc.double(), (score, maxScore) => {
      const [micro, most] = [score, maxScore].map((points) => Math.round(points * 1e6));
      // Within half of the sixth place of a bound, floating point leaves open on which side a number is.
      fc.pre([0, 2, maxScore].every((bound) => Math.abs(Math.abs(score - bound) - 5e-7) > 1e-9));
      const isWithin = Number(micro) >= 0 && Number(micro) <= 2e6 && Number(micro) <= Number(most);
      const isGood = isWithin && Number.isFinite(maxScore);
      return verdict({ score, maxScore }) === (isGood ? 'apply' : 'SCORE_OUT_OF_RANGE');
    }),
    { examples: [[0, Number.POSITIVE_INFINITY]] },
  );
});

t.test('a score by hand is compared at six places, and a full mark is the score of the question', async (t) => {
  const grade = (worth: number, score: number, maxScore = worth) => {
    const one = samplePaper({ ...essay, score: worth, scoringRule: { mode: 'MANUAL' } });
    const attempt = sampleAttempt({ status: 'GRADED', answers: { q0: sampleAnswer({ text: 'x' }) }, order: [0] });
    const decision = decideHandoff(
      attempt,
      one,
      copyHandoff({ ...body, questionId: 'question-1', score, maxScore }),
      NOW,
    );
    return decision.kind === 'apply' ? decision.grade : decision.kind;
  };
  t.strictSame(grade(0.3, 0.1 + 0.2), { isCorrect: true, score: 0.3 });
  t.strictSame(grade(1.2, 1.1999999999999997), { isCorrect: true, score: 1.2 });
  t.strictSame(grade(10 / 3, 3.333333), { isCorrect: true, score: 10 / 3 });
  t.strictSame(grade(0.3, 0.3, 0.1 + 0.2 - 1e-9), { isCorrect: true, score: 0.3 }, 'maxScore too');
  t.strictSame(grade(0.3, -2.7e-17), { isCorrect: false, score: 0 });
  t.strictSame(grade(1e-7, 0), { isCorrect: false, score: 0 });
  for (const score of [0.300001, -0.000001]) t.equal(grade(0.3, score), 'refuse', `${score}`);
});

/** Applies grades one after the other and returns the final score, with the outcome of each. */
function finalGrade(...grades: [score: number, at: string | null, teacher?: string][]) {
  let grader: Grader | undefined;
  let score: number | null = null;
  const outcomes = grades.map(([points, occurredAt, teacher]) => {
    const q1 = sampleAnswer({ text: 'Bài làm', score, ...(grader === undefined ? {} : { grader }) });
    const attempt = sampleAttempt({ status: 'GRADED', answers: { ...answers, q1 }, order: [0, 1, 2] });
    const decision = decideHandoff(attempt, paper, copyHandoff({ ...body, score: points, occurredAt }, teacher), NOW);
    if (decision.kind === 'apply')
      ({
        grader,
        grade: { score },
      } = decision);
    return decision.kind === 'supersede' ? decision.supersededBy : decision.kind;
  });
  return { score, outcomes };
}

t.test('a person’s grade counts before a machine’s, and of two equals the later one', async (t) => {
  const [early, late] = ['2026-11-20T07:00:00Z', '2026-11-20T07:00:00.001Z'];
  t.strictSame(finalGrade([1, late, 'teacher-1'], [2, early]), { score: 1, outcomes: ['apply', 'PERSON'] });
  t.strictSame(finalGrade([1, early, 'teacher-1'], [2, late]), { score: 1, outcomes: ['apply', 'PERSON'] });
  t.strictSame(finalGrade([1, late], [2, early, 'teacher-1']), { score: 2, outcomes: ['apply', 'apply'] });
  t.strictSame(finalGrade([1, late], [2, early]), { score: 1, outcomes: ['apply', 'NEWER'] });
  t.strictSame(finalGrade([1, early], [2, late]), { score: 2, outcomes: ['apply', 'apply'] });
  t.strictSame(finalGrade([1, late, 'a'], [2, early, 'b']), { score: 1, outcomes: ['apply', 'NEWER'] });
  t.strictSame(finalGrade([1, early], [2, early]), { score: 2, outcomes: ['apply', 'apply'] }, 'the later arrival');
  t.strictSame(finalGrade([1, null], [2, early]), { score: 1, outcomes: ['apply', 'NEWER'] });
  t.strictSame(finalGrade([1, late], [2, null], [0, null]), { score: 0, outcomes: ['apply', 'apply', 'apply'] });
  t.match(finalGrade([1, late, 'a'], [2, late], [2, late, 'b'], [0, null]), {
    score: 2,
    outcomes: ['apply', 'PERSON', 'apply', 'PERSON'],
  });
});

t.test('the final grade does not depend on the order in which grades arrive', async () => {
  const grade = fc.record({ score: fc.integer({ min: 0, max: 2 }), isPerson: fc.boolean() });
  fc.assert(
    fc.property(
      fc.array(grade, { minLength: 1, maxLength: 6 }),
      fc.infiniteStream(fc.double({ min: 0, max: 1 })),
      (all, keys) => {
        const sent = all.map(({ score, isPerson }, minute): [number, string, string?] => {
          const at = new Date(Date.UTC(2026, 10, 20, 7, minute)).toISOString();
          return isPerson ? [score, at, 'teacher-1'] : [score, at];
        });
        const shuffled = sent.map((one) => ({ one, key: keys.next().value })).sort((a, b) => a.key - b.key);
        return finalGrade(...sent).score === finalGrade(...shuffled.map(({ one }) => one)).score;
      },
    ),
  );
});

t.test('the event of a handoff contains the grader that a gateway named', async (t) => {
  const sampled = sampleAttempt({ status: 'GRADED', answers, order: [0, 1, 2] });
  const decided = decideHandoff(sampled, paper, copyHandoff(body, 'teacher-1'), NOW);
  t.match(decided, { kind: 'apply', metadata: { sourceEventId: 'event-1', gradedById: 'teacher-1' } });
  t.notOk('gradedById' in copyHandoff(body));
});
