import t from 'tap';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { graded } from '#testing/stored/stored-attempts.ts';
import { erasedFields, isErasedAttempt } from './erased.ts';
import { decideHandoff } from './handoff.ts';
import { gradeNotices } from './notices.ts';

const NOW = new Date('2026-11-23T03:00:00.000Z');
const WORD = 'Trần Thị An';

const attempt = sampleAttempt({
  ...graded(),
  studentInfo: JSON.stringify({ name: WORD }),
  startKeys: [`key of ${WORD}`, 'alias'],
  answers: {
    q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1 }),
    q1: sampleAnswer({ text: WORD, score: 2 }),
    q2: sampleAnswer({ textRef: true, score: null }),
  },
  events: [{ seq: 1, type: 'TAB_HIDDEN', metadata: JSON.stringify({ by: WORD }), createdAt: NOW }],
});
const erased = { ...attempt, ...erasedFields(attempt, 'erased-x', NOW) };

t.test('an erased attempt keeps scores, options and counts, and nothing that its student wrote', (t) => {
  t.notMatch(JSON.stringify(erased), new RegExp(`${WORD}|student-1`));
  t.match(erased, {
    studentId: 'erased-x',
    totalScore: 1,
    attemptNumber: 1,
    answers: { q0: { selected: ['a'], score: 1 } },
  });
  t.match(erased.answers, { q1: { text: '', score: 2 }, q2: { text: '' } });
  t.notOk('textRef' in (erased.answers.q2 ?? {}), 'no reader looks for a row that is deleted');
  t.strictSame(new Set(erased.startKeys).size, 2, 'keys stay distinct');
  t.strictSame(erased.events, [{ seq: 1, type: 'TAB_HIDDEN', metadata: '{}', createdAt: NOW }]);
  t.end();
});

t.test('an erased attempt has no notices and takes no grade', (t) => {
  t.equal(isErasedAttempt(attempt), false);
  t.equal(isErasedAttempt({ erasedAt: null }), false);
  t.equal(gradeNotices(attempt).length, 2);
  t.strictSame(gradeNotices(erased), []);
  const handoff = { sourceEventId: 'h', questionId: 'question-1', score: 1, maxScore: 1 };
  const whole = { ...handoff, provider: null, model: null, occurredAt: null, feedback: WORD, criteria: null };
  t.match(decideHandoff(erased, samplePaper({}), whole, new Date()), {
    kind: 'refuse',
    rejection: { rejected: 'ATTEMPT_NOT_FOUND' },
  });
  t.end();
});
