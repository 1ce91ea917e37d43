import t from 'tap';
import { sampleOptions, samplePaper } from '#testing/stored/sample-attempt.ts';
import { newAttempt } from './new-attempt.ts';
import type { StartBody } from './start-body.ts';
import type { StartPlan } from './start-rules.ts';

const now = new Date('2026-05-04T03:00:00.000Z');
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
    now,
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
  t.match(attempt.events[0], { seq: 1, type: 'START', createdAt: now });
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
