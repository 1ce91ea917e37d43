import fc from 'fast-check';
import t from 'tap';
import { sampleAnswer, sampleAttempt, sampleOptions, samplePaper } from '#testing/stored/sample-attempt.ts';
import { graded } from '#testing/stored/stored-attempts.ts';
import { deadlineOf, isOver, remainingSeconds } from './attempt.ts';
import { erasedFields, isErasedAttempt } from './erased.ts';
import { decideHandoff } from './handoff.ts';
import { newAttempt, shuffledPositions } from './new-attempt.ts';
import { gradeNotices } from './notices.ts';
import type { StartBody } from './start-body.ts';
import type { StartPlan } from './start-rules.ts';

const startedAt = new Date('2026-05-04T03:00:00.000Z');
const paper = samplePaper(...Array.from({ length: 12 }, () => ({ score: 0.1, options: sampleOptions(...'abcdefgh') })));
const plan: StartPlan = {
  kind: 'assignment',
  link: null,
  limit: null,
  limitScope: 'exam',
  seatLimit: null,
  dueAt: null,
};

const studentInfo = { fullName: 'An', phone: null, $nick: { 'a.b': [1, { deep: true }] } };

function start(exam: Partial<StartBody['exam']> & object, overrides: { plan?: StartPlan; releasesSeen?: number } = {}) {
  const body = {
    exam: {
      id: 'exam-1',
      organizationId: 'org-1',
      title: 'Toán',
      status: 'PUBLISHED',
      durationMinutes: 60,
      showResultMode: 'MANUAL' as const,
      createdById: 'teacher-1',
      unknown: 'drop me',
      ...exam,
    },
    access: { assigned: true },
    questions: [],
    studentInfo,
  };
  return newAttempt(body, {
    attemptId: 'attempt-1',
    studentId: 'student-1',
    attemptNumber: 2,
    startKey: 'key-1',
    idempotencyHeader: 'x-correlation-id',
    paperId: 'paper-1',
    paper,
    plan: overrides.plan ?? plan,
    courseContext: null,
    releasesSeen: overrides.releasesSeen ?? 0,
    seed: 'seed-1',
    now: startedAt,
  });
}

t.test('a new attempt copies policy, scope and the whole student info, and no other unnamed field', async (t) => {
  const attempt = start({ closeTime: '2026-05-04T03:30:00Z' });
  t.match(attempt, {
    _id: 'attempt-1',
    status: 'IN_PROGRESS',
    attemptNumber: 2,
    startKeys: ['key-1'],
    deadlineAt: new Date('2026-05-04T03:30:00.000Z'),
    maxScore: 1.2,
    scope: { createdById: 'teacher-1', assignedClassroomIds: [], resultViewerTeacherIds: [] },
    eventSeq: 1,
  });
  t.strictSame(JSON.parse(attempt.studentInfo ?? ''), studentInfo);
  t.notMatch(JSON.stringify(attempt), 'drop me');
  t.equal(attempt.events.length, 1);
  t.match(attempt.events[0], { seq: 1, type: 'START', createdAt: startedAt });
  t.strictSame(JSON.parse(attempt.events[0]?.metadata ?? ''), {
    created: true,
    accessLinkId: null,
    idempotencyHeader: 'x-correlation-id',
  });
});

t.test('a link start stores its link and is not bound by a due time', async (t) => {
  const attempt = start({}, { plan: { ...plan, kind: 'link', link: { id: 'link-1', mode: 'GUEST_ALLOWED' } } });
  t.equal(attempt.accessLinkId, 'link-1');
  t.strictSame(attempt.deadlineAt, new Date('2026-05-04T04:00:00.000Z'));
  const due = new Date('2026-05-04T03:05:00.000Z');
  t.strictSame(start({}, { plan: { ...plan, dueAt: due } }).deadlineAt, due);
});

t.test('a new attempt takes the release time of its own start, whatever was released before', async (t) => {
  t.match(start({}, { releasesSeen: 3 }), {
    exam: { resultsReleasedAt: null },
    releasesSeen: 3,
    releaseEventId: null,
    tally: { released: false },
  });
  const own = start({ resultsReleasedAt: '2026-05-02T00:00:00Z' }, { releasesSeen: 3 });
  t.match(own, { exam: { resultsReleasedAt: new Date('2026-05-02T00:00:00.000Z') }, tally: { released: true } });
});

t.test('a new attempt shuffles questions and options only if the settings of the exam require it', async (t) => {
  const asSent = paper.questions.map((_, index) => index);
  const isPermutation = (order: number[]) => order.toSorted((a, b) => a - b).join() === asSent.join();
  t.strictSame(start({}).order, asSent);
  t.strictSame(start({}).optionOrders, []);
  for (const how of [{ shuffleQuestions: true }, { randomizePerAttempt: true }]) {
    const { order, optionOrders } = start(how);
    t.not(order.join(), asSent.join());
    t.ok(isPermutation(order));
    t.strictSame(optionOrders, []);
  }
  const { order, optionOrders } = start({ shuffleOptions: true });
  t.strictSame(order, asSent);
  t.equal(optionOrders.length, 12);
  t.ok(new Set(optionOrders.map(String)).size > 6, 'each question has an order of its own');
  t.ok(optionOrders.every((positions) => new Set(positions).size === 8));
});

t.test('shuffled positions are a permutation that depends on the seed only', async () => {
  fc.assert(
    fc.property(fc.nat(500), fc.string(), (length, seed) => {
      const order = shuffledPositions(length, seed);
      const sorted = order.toSorted((one, other) => one - other);
      return (
        sorted.every((position, index) => position === index) && order.join() === shuffledPositions(length, seed).join()
      );
    }),
  );
});

t.test('shuffled positions are the same in every process and in every version of Node', async (t) => {
  t.strictSame(shuffledPositions(8, 'seed-1'), [0, 4, 6, 3, 7, 5, 1, 2]);
});

t.test('a shuffle depends on more than 32 bits of its seed', async (t) => {
  // These two seeds have the same value in xmur3, a hash of 32 bits.
  const [one, other] = ['0BsM40uctdYPYrCsKJgBGH', '96bBfPhNRuW6tGVxk1Ukc3'];
  t.notSame(shuffledPositions(100, `${one}:questions`), shuffledPositions(100, `${other}:questions`));
});

t.test('shuffling moves every question to every place about equally often', async (t) => {
  const counts = Array.from({ length: 5 }, () => [0, 0, 0, 0, 0]);
  for (let seed = 0; seed < 10_000; seed += 1) {
    for (const [place, position] of shuffledPositions(5, `fair-${seed}`).entries()) {
      const row = counts[position];
      if (row) row[place] = (row[place] ?? 0) + 1;
    }
  }
  for (const count of counts.flat()) t.ok(count > 1_800 && count < 2_200, String(count));
});

const at = (time: string) => new Date(`2026-05-04T${time}Z`);
const bounds = { startedAt: at('03:00:00'), durationMinutes: 60, closeTime: null, assignmentDueAt: null };

t.test('the deadline is the earliest of its bounds', async (t) => {
  t.strictSame(deadlineOf(bounds), at('04:00:00'));
  t.strictSame(deadlineOf({ ...bounds, closeTime: at('03:30:00') }), at('03:30:00'));
  t.strictSame(deadlineOf({ ...bounds, closeTime: at('05:00:00') }), at('04:00:00'));
  t.strictSame(deadlineOf({ ...bounds, closeTime: at('03:30:00'), assignmentDueAt: at('03:10:00') }), at('03:10:00'));
  t.equal(deadlineOf({ ...bounds, durationMinutes: null }), null);
  const forever = deadlineOf({ ...bounds, durationMinutes: Number.MAX_SAFE_INTEGER });
  t.equal(forever?.toISOString(), '9999-12-31T23:59:59.999Z');
});

t.test('an attempt is over at the instant of its deadline', async (t) => {
  t.notOk(isOver(at('04:00:00'), at('03:59:59.999')));
  t.ok(isOver(at('04:00:00'), at('04:00:00')));
  t.notOk(isOver(null, at('04:00:00')));
  t.equal(remainingSeconds(at('04:00:00'), at('03:59:57.500')), 2);
  t.equal(remainingSeconds(at('04:00:00'), at('05:00:00')), 0);
  t.equal(remainingSeconds(null, at('05:00:00')), null);
});

const erasedAt = new Date('2026-11-23T03:00:00.000Z');
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
  events: [{ seq: 1, type: 'TAB_HIDDEN', metadata: JSON.stringify({ by: WORD }), createdAt: erasedAt }],
});
const erased = { ...attempt, ...erasedFields(attempt, 'erased-x', erasedAt) };

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
  t.strictSame(erased.events, [{ seq: 1, type: 'TAB_HIDDEN', metadata: '{}', createdAt: erasedAt }]);
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
