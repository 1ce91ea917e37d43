import fc from 'fast-check';
import t from 'tap';
import { type Attempt, isVoided, ofRound } from '#shared/attempt/attempt.ts';
import { visibleMetadata } from '#shared/attempt/events.ts';
import { missedGrants, type TimeGrant, timeMetadata, withGrantedTime } from '#shared/attempt/extra-time.ts';
import { gradeNotices, noticesOnGrade } from '#shared/attempt/notices.ts';
import { withScoreChange } from '#shared/attempt/score-history.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { sampleAnswer, sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { graded, MIXED_PAPER } from '#testing/stored/stored-attempts.ts';
import { examActId } from './exam-act.ts';
import { type Restorable, refuseReopen, refuseRestore, reopenedFields } from './rounds.ts';

const AT = new Date('2026-05-04T03:20:00.000Z');
const CHANGE = {
  at: AT,
  by: 'teacher-1',
  cause: 'REOPEN',
  totalScore: null,
  maxScore: 3,
  regradeId: null,
  reason: 'a mistake',
} as const;

const grants = fc.uniqueArray(
  fc.record({
    _id: fc.uuid(),
    minutes: fc.integer({ min: 1, max: 600 }),
    by: fc.constantFrom(
      { id: 'admin-1', role: 'ADMIN' as const },
      { id: 'teacher-2', role: 'TEACHER' as const },
      { id: 'stranger', role: 'TEACHER' as const },
    ),
    reason: fc.constant('the fire alarm'),
    at: fc.constant(new Date('2026-05-04T03:00:05.000Z')),
  }),
  { selector: ({ _id }) => _id, maxLength: 5 },
);

t.test('a start takes the minutes of all grants by examiners of its scope, each once', async () => {
  fc.assert(
    fc.property(grants, fc.boolean(), (granted: TimeGrant[], hasDeadline) => {
      const plain = sampleAttempt(hasDeadline ? {} : { deadlineAt: null });
      const attempt = withGrantedTime(plain, granted);
      const own = hasDeadline ? granted.filter(({ by }) => by.id !== 'stranger') : [];
      const minutes = own.reduce((sum, grant) => sum + grant.minutes, 0);
      const deadline = plain.deadlineAt === null ? null : plain.deadlineAt.getTime() + minutes * MINUTE;
      const isNumbered = attempt.events.every(({ seq }, index) => seq === index + 1);
      return (
        (attempt.deadlineAt?.getTime() ?? null) === deadline &&
        attempt.eventSeq === 1 + own.length &&
        isNumbered &&
        missedGrants(attempt, granted).length === 0 &&
        missedGrants(plain, granted).length === own.length &&
        missedGrants({ ...plain, round: 2 }, granted).length === 0
      );
    }),
  );
});

t.test('of a reopened attempt only grades by hand stand, and only of answers that did not change', async (t) => {
  const grader = { isPerson: true, at: AT };
  const cases = fc.record({ byHand: fc.boolean(), isSaved: fc.boolean(), rounds: fc.integer({ min: 1, max: 3 }) });
  fc.assert(
    fc.property(cases, ({ byHand, isSaved, rounds }) => {
      const hand = byHand ? { isCorrect: false, score: 1.5, grader } : {};
      const answers = {
        q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1 }),
        q1: sampleAnswer({ text: 'Sông Hương', ...hand }),
      };
      let attempt: Attempt = sampleAttempt({ ...graded(), answers });
      for (let round = 1; round <= rounds; round++) {
        attempt = { ...attempt, ...reopenedFields(attempt, CHANGE, AT) };
        if (isSaved && round === rounds) attempt.answers.q1 = sampleAnswer({ text: 'Sông Hồng', serverVersion: 2 });
        const { answers: again } = atOnce(gradeAttempt(MIXED_PAPER, attempt.answers));
        const scores = Object.entries(attempt.answers).map(([key, answer]) => [key, { ...answer, ...again[key] }]);
        attempt = { ...attempt, answers: Object.fromEntries(scores), status: 'GRADED' };
      }
      const stands = byHand && !isSaved;
      return attempt.answers.q0?.score === 1 && attempt.answers.q1?.score === (stands ? 1.5 : null);
    }),
  );
  const opened = reopenedFields(sampleAttempt(graded()), CHANGE, AT);
  t.match(opened, { status: 'IN_PROGRESS', round: 2, totalScore: null, submittedAt: null, tally: { scored: false } });
  t.strictSame(
    opened.scoreHistory.map(({ cause, totalScore }) => [cause, totalScore]),
    [
      ['GRADE', 1],
      ['REOPEN', null],
    ],
    'a grade from before histories were stored is the first entry',
  );
});

t.test('the history keeps the newest 500 changes', async (t) => {
  let history = withScoreChange(sampleAttempt(), CHANGE);
  for (let n = 1; n <= 600; n++)
    history = withScoreChange(sampleAttempt({ scoreHistory: history }), { ...CHANGE, totalScore: n });
  t.equal(history.length, 500);
  t.equal(history.at(-1)?.totalScore, 600);
});

t.test('a reopening is refused for the first reason that holds', async (t) => {
  const submitted = { status: 'GRADED', voidedAt: null } as const;
  t.equal(refuseReopen(submitted, null), null);
  t.match(refuseReopen({ ...submitted, voidedAt: AT }, 'other'), { rejected: 'ATTEMPT_VOIDED' });
  t.match(refuseReopen({ status: 'IN_PROGRESS' }, 'other'), { rejected: 'ATTEMPT_NOT_SUBMITTED' });
  t.match(refuseReopen(submitted, 'other'), { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: 'other' } });
});

t.test('a restore is refused once the limit of the newest start that counts the attempt is used', async (t) => {
  const start = fc.record({
    voidedAt: fc.option(fc.constant(AT)),
    accessLinkId: fc.constantFrom('link-1', 'link-2', null),
    startLimits: fc.record({
      attempts: fc.option(fc.integer({ min: 1, max: 4 })),
      scope: fc.constantFrom('exam' as const, 'link' as const),
      guests: fc.boolean(),
      seats: fc.constant(null),
    }),
  });
  fc.assert(
    fc.property(fc.array(start, { minLength: 1, maxLength: 6 }), fc.nat(), (starts, at) => {
      const rows = starts.map((one, attemptNumber) => ({ ...one, attemptNumber }));
      const index = at % rows.length;
      const attempt = { ...(rows[index] as (typeof rows)[number]), voidedAt: AT };
      const others = rows.filter((_, n) => n !== index);
      const refused = refuseRestore(attempt, others)?.rejected ?? null;

      let limit: number | null = null;
      let counted = 0;
      for (const { startLimits, accessLinkId } of rows) {
        if (startLimits.scope === 'link' && accessLinkId !== attempt.accessLinkId) continue;
        limit = startLimits.attempts;
        counted = others.filter(
          (other) => other.voidedAt === null && (startLimits.scope === 'exam' || other.accessLinkId === accessLinkId),
        ).length;
      }
      return refused === (limit !== null && counted >= limit ? 'ATTEMPT_LIMIT_REACHED' : null);
    }),
  );
  const old: Restorable = { attemptNumber: 1, accessLinkId: null };
  t.match(refuseRestore(old, []), { rejected: 'ATTEMPT_NOT_VOIDED' });
  t.equal(refuseRestore({ ...old, voidedAt: AT }, [{ ...old, attemptNumber: 2 }]), null, 'of starts without limits');
});

t.test('a key of a caller makes one act of a kind on one object', async (t) => {
  const by = { id: 'teacher-1', role: 'TEACHER' } as const;
  const ids = [
    examActId('VOID', by, 'attempt-1', 'key-1'),
    examActId('RESTORE', by, 'attempt-1', 'key-1'),
    examActId('VOID', by, 'attempt-2', 'key-1'),
    examActId('VOID', by, 'attempt-1', 'key-2'),
    examActId('VOID', { ...by, id: 'teacher-2' }, 'attempt-1', 'key-1'),
  ];
  t.equal(new Set(ids).size, ids.length);
  t.equal(examActId('VOID', by, 'attempt-1', 'key-1'), ids[0]);
});

t.test('only examiners see who acted, and why', async (t) => {
  const grant = { _id: 'act-1', minutes: 10, by: { id: 'teacher-1', role: 'TEACHER' as const }, reason: 'why', at: AT };
  const metadata = JSON.stringify(timeMetadata(grant));
  const event = { seq: 2, type: 'TIME_EXTENDED', metadata, createdAt: AT } as const;
  t.strictSame(visibleMetadata(event, true), { actId: 'act-1', minutes: 10 });
  t.strictSame(visibleMetadata(event, false, true), { actId: 'act-1', minutes: 10, by: 'teacher-1', reason: 'why' });
});

t.test('notices of a round have its number, and a voided attempt has none', async (t) => {
  const attempt = sampleAttempt(graded());
  const ends = (of: Partial<Attempt>) =>
    gradeNotices({ ...attempt, ...of }).map(({ sourceEventId }) => sourceEventId.split(':').slice(3));
  t.strictSame(ends({}), [[], []]);
  t.strictSame(ends({ round: 3 }), [['3'], ['3']]);
  t.equal(ofRound({ round: 1 }), '');
  const released = { ...attempt, exam: { ...attempt.exam, showResultMode: 'MANUAL' as const, resultsReleasedAt: AT } };
  for (const one of [attempt, released]) {
    t.equal(noticesOnGrade(one, AT).length, 2);
    t.strictSame(noticesOnGrade({ ...one, voidedAt: AT }, AT), []);
  }
  t.notOk(isVoided({ voidedAt: null }));
});
