import fc from 'fast-check';
import t from 'tap';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import type { AttemptStatus } from './attempt.ts';
import { copyHandoff, decideHandoff, type HandoffBody } from './handoff.ts';
import { questionIdAt } from './question.ts';

const essay = { score: 2, type: 'ESSAY' as const, options: [], answerKey: {} };
const paper = samplePaper(
  { score: 1.3 },
  { ...essay, scoringRule: { mode: 'ESSAY' } },
  { ...essay, scoringRule: { mode: 'MANUAL' } },
);
const body: HandoffBody = { sourceEventId: 'event-1', questionId: 'question-2', score: 1.25, maxScore: 2 };
const answers = {
  q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1.3 }),
  q1: sampleAnswer({ text: 'Bài làm' }),
};

function decide(overrides: Partial<HandoffBody> = {}, status: AttemptStatus = 'GRADED') {
  return decideHandoff(
    sampleAttempt({ status, answers, order: [0, 1, 2] }),
    paper,
    copyHandoff({ ...body, ...overrides }),
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
  const decided = decideHandoff(attempt, paper, copyHandoff({ ...body, questionId: id }));
  t.match(decided, { kind: 'apply', paperIndex: 1, metadata: { questionId: 'question-2', score: 1.25 } });
});

t.test('a handoff of score 0 grades a practice question and changes no total', async (t) => {
  const practice = samplePaper({ score: 1.3 }, { ...essay, score: 0, scoringRule: { mode: 'MANUAL' } });
  const attempt = sampleAttempt({ status: 'GRADED', answers, order: [0, 1] });
  const grade = (score: number) => decideHandoff(attempt, practice, copyHandoff({ ...body, score, maxScore: 0 }));
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
      const isGood = score >= 0 && score <= 2 && score <= maxScore;
      return verdict({ score, maxScore }) === (isGood ? 'apply' : 'SCORE_OUT_OF_RANGE');
    }),
  );
});

t.test('the event of a handoff contains the grader that a gateway named', async (t) => {
  const sampled = sampleAttempt({ status: 'GRADED', answers, order: [0, 1, 2] });
  const decided = decideHandoff(sampled, paper, copyHandoff(body, 'teacher-1'));
  t.match(decided, { kind: 'apply', metadata: { sourceEventId: 'event-1', gradedById: 'teacher-1' } });
  t.notOk('gradedById' in copyHandoff(body));
});
