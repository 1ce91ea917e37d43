import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { attempts, regradeLines, regrades } from '#infra/mongo/attempt/collections.ts';
import { touchSubmitted } from '#infra/mongo/exam-room/regraded-attempts.ts';
import { voidAttempt } from '#infra/mongo/exam-room/void.ts';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { readTrace } from '#infra/mongo/operations/trace.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { RegradeRequest } from '#shared/generated/exam-room.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { callWith, inProcessDoor } from '#testing/doors/in-process-door.ts';
import { sampleAnswer } from '#testing/stored/sample-attempt.ts';
import { graded, postGrading, postHandoff, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';
import { readExamAct } from './acts.ts';
import { restoreAttempt, voidAttempt as voidRoute } from './attempt-acts.ts';
import { applyRegrade, createRegrade, discardRegrade, readRegradeRows, readRegrades } from './regrades.ts';

const mongo = await openTestMongo(t);
const open = (actor: string) =>
  testWorker(t, testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)), { pollMs: 200 });
// No worker grades beside the tests that grade by themselves.
const deps = inProcessDoor(mongo, { examroom: [open('examroom')] });

const TEACHER = { id: 'teacher-1', role: 'TEACHER' };
const ADMIN = { id: 'admin-1', role: 'ADMIN' };
const REASON = 'the key of question 1 was wrong';

interface View {
  id: string;
  state: string;
  attempts: number;
  changed: number;
  up: number;
  down: number;
}

const call = <Body>(body: Body, params: Record<string, string>, actor = TEACHER, key: string = newId()) =>
  callWith(body, { params, identity: { actor, idempotency: { key, header: 'idempotency-key' } } });

function viewOf(reply: Awaited<ReturnType<typeof createRegrade>>): View {
  if (isRejection(reply)) throw new Error(JSON.stringify(reply));
  return (reply.data as { regrade: View }).regrade;
}

const create = (examId: string, changes: RegradeRequest['changes'], actor = TEACHER, key?: string) =>
  createRegrade(deps, call({ changes, reason: REASON }, { examId }, actor, key));
const apply = (examId: string, regradeId: string, actor = TEACHER, reason = REASON) =>
  applyRegrade(deps, call({ reason }, { examId, regradeId }, actor));
const discard = (examId: string, regradeId: string, key: string = newId()) =>
  discardRegrade(deps, call({ reason: REASON }, { examId, regradeId }, TEACHER, key));
const rowsOf = async (examId: string, regradeId: string, actor = TEACHER) => {
  const reply = await readRegradeRows(deps, call({}, { examId, regradeId }, actor) as never);
  if (isRejection(reply)) throw new Error(reply.rejected);
  return (reply.data as { items: { attemptId: string; before: object; after: object; questions: object[] }[] }).items;
};
const stored = async (_id: string) => {
  const attempt = await attempts(mongo).findOne({ _id });
  if (attempt === null) throw new Error(`attempt ${_id} is lost`);
  return attempt;
};
const noticesOf = (attempt: Pick<Attempt, '_id'>) =>
  mongo.db.collection(NOTICES).distinct('key', { subject: attempt._id });

t.test('a wrong key is previewed, applied and announced once', async (t) => {
  const examId = `exam-${newId()}`;
  const right = await storeAttempt(mongo, { ...graded(), examId });
  const chosen = { q0: sampleAnswer({ selected: ['b'], isCorrect: false, score: 0 }) };
  const wrong = await storeAttempt(mongo, {
    ...graded(),
    examId,
    answers: chosen,
    totalScore: 0,
    correctCount: 0,
    wrongCount: 2,
    pendingManualCount: 0,
  });
  const hidden = await storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId });
  const open = await storeAttempt(mongo, { examId });
  const elsewhere = await storeAttempt(mongo, { ...graded(), examId: `${examId}-b` });
  const changes = [{ questionId: 'choice', answerKey: { correctOptionIds: ['b'] } }];

  const preview = viewOf(await create(examId, changes));
  t.match(preview, { state: 'PREVIEW', attempts: 3, changed: 3, up: 1, down: 2, appliedAt: null });
  const rows = await rowsOf(examId, preview.id);
  t.strictSame(
    rows.map(({ attemptId }) => attemptId),
    [right._id, wrong._id, hidden._id].sort(),
  );
  t.match(
    rows.find(({ attemptId }) => attemptId === wrong._id),
    {
      before: { totalScore: 0, maxScore: 3 },
      after: { totalScore: 1, maxScore: 3 },
      questions: [{ questionId: 'choice', before: 0, after: 1 }],
    },
  );
  for (const attempt of [right, wrong, hidden, open])
    t.strictSame(await stored(attempt._id), attempt, 'a preview changes nothing');

  const [applied, ...others] = await Promise.all([1, 2, 3].map(() => apply(examId, preview.id)));
  t.match(viewOf(applied as never), { state: 'APPLIED', changed: 3 });
  for (const other of others) t.strictSame(other, applied);
  const after = await stored(wrong._id);
  t.match(after, { totalScore: 1, correctCount: 1, wrongCount: 1, answers: { q0: { isCorrect: true, score: 1 } } });
  t.strictSame(
    after.events.map(({ type }) => type),
    ['START', 'REGRADED'],
    'once',
  );
  t.match(await stored(right._id), { totalScore: 0, pendingManualCount: 1 });
  t.strictSame(await stored(elsewhere._id), elsewhere);
  t.strictSame((await noticesOf(wrong)).sort(), [
    `${wrong._id}:notification:regraded:${preview.id}`,
    `${wrong._id}:notification:regraded_parent:${preview.id}`,
  ]);
  t.strictSame(await noticesOf(hidden), [], 'a hidden result is not announced');

  t.strictSame(await apply(examId, preview.id), applied, 'an applied regrade stays applied');
  t.equal((await stored(wrong._id)).eventSeq, 2);
  t.strictSame(await discard(examId, preview.id), { rejected: 'REGRADE_STATE_CONFLICT' });
  const audit = await operatorAudit(mongo).find({ subject: examId }).sort({ _id: 1 }).toArray();
  t.match(
    audit.map(({ action, reason }) => [action, reason]),
    [
      ['exam.regrade', REASON],
      ['exam.regrade-applied', REASON],
    ],
  );
});

t.test('a trace of an attempt shows who graded it anew, by which regrade, and no score', async (t) => {
  const examId = `exam-${newId()}`;
  const attempt = await storeAttempt(mongo, { ...graded(), examId });
  const regraded = await Promise.all(
    [['b'], ['c']].map(async (correctOptionIds) => {
      const { id } = viewOf(await create(examId, [{ questionId: 'choice', answerKey: { correctOptionIds } }]));
      return id;
    }),
  );
  const award = viewOf(await create(examId, [{ questionId: 'choice', award: 'FULL' }], ADMIN));
  await apply(examId, regraded[0] ?? '');
  await apply(examId, award.id, ADMIN);

  const read = (value: string) => readTrace(mongo, { by: 'id', value }, { now: Date.now(), redis: 'up' });
  const trace = await read(attempt._id);
  t.match(
    trace?.lines.filter(({ state }) => state === 'attempt.regraded'),
    [
      { kind: 'act', what: TEACHER.id, about: regraded[0] },
      { kind: 'act', what: ADMIN.id, about: award.id },
    ],
  );
  const acts = trace?.lines.filter(({ state }) => state === 'exam.regrade-applied').map(({ what }) => what);
  t.strictSame(acts, [TEACHER.id, ADMIN.id]);
  t.notMatch(JSON.stringify(trace), /totalScore/);
  t.match(await read(award.id), { subject: 'command' }, 'the id of a regrade leads to its command');
});

t.test('an open attempt takes the changes at its grading, a later one has its own key', async (t) => {
  const examId = `exam-${newId()}`;
  const seen = await storeAttempt(mongo, { ...graded(), examId });
  const [before, later] = [{ startedAt: new Date(Date.now() - 60_000) }, { startedAt: new Date(Date.now() + 60_000) }];
  const first = await storeAttempt(mongo, { ...SUBMITTED, ...before, examId });
  const own = await storeAttempt(mongo, { ...SUBMITTED, ...later, examId });
  const preview = viewOf(await create(examId, [{ questionId: 'choice', award: 'EXCLUDE' }], ADMIN));
  t.match(viewOf(await apply(examId, preview.id, ADMIN)), { state: 'APPLIED' });
  t.match(await stored(seen._id), {
    totalScore: 0,
    maxScore: 2,
    correctCount: 0,
    wrongCount: 0,
    pendingManualCount: 1,
  });
  for (const attempt of [first, own]) await grade(attempt);
  t.match(await stored(first._id), { status: 'GRADED', totalScore: 0, maxScore: 2, answers: { q0: { score: null } } });
  t.match(await stored(own._id), { status: 'GRADED', totalScore: 1, maxScore: 3 });

  const second = viewOf(
    await create(examId, [{ questionId: 'choice', answerKey: { correctOptionIds: ['a'] } }], ADMIN),
  );
  t.match(second, { attempts: 3, changed: 2, up: 2, down: 0 }, 'a second regrade builds on the first');
  t.match(viewOf(await apply(examId, second.id, ADMIN)), { state: 'APPLIED' });
  t.match(await stored(first._id), { totalScore: 1, maxScore: 3 });
});

async function grade(attempt: Attempt, meanwhile?: () => Promise<unknown>) {
  const workerDeps = testWorkerDeps(mongo);
  const read = workerDeps.gradingPaper;
  let isFirst = true;
  workerDeps.gradingPaper = async (...about) => {
    const paper = await read(...about);
    if (isFirst) await meanwhile?.();
    isFirst = false;
    return paper;
  };
  t.equal(
    await runCommand(testKernel(mongo), makeActor('grading', workerDeps), await postGrading(mongo, attempt)),
    'done',
  );
}

t.test('a grade that was decided before a regrade and commits after it is decided again', async (t) => {
  const examId = `exam-${newId()}`;
  await storeAttempt(mongo, { ...graded(), examId });
  const attempt = await storeAttempt(mongo, { ...SUBMITTED, examId });
  const preview = viewOf(await create(examId, [{ questionId: 'choice', award: 'EXCLUDE' }]));
  await grade(attempt, () => apply(examId, preview.id));
  t.match(await stored(attempt._id), { status: 'GRADED', totalScore: 0, maxScore: 2 });
  t.strictSame(
    (await stored(attempt._id)).events.map(({ type }) => type),
    ['START', 'SUBMIT'],
  );
});

t.test('a step of a regrade is read again if one of its submitted attempts was graded since', async (t) => {
  const [waiting, done] = [await storeAttempt(mongo, SUBMITTED), await storeAttempt(mongo, graded())];
  const touch = (...found: Attempt[]) => inTransaction(mongo, 60_000, (commit) => touchSubmitted(mongo, found, commit));
  await touch(waiting);
  t.not((await stored(waiting._id)).stamp, waiting.stamp);
  await t.rejects(touch(await stored(waiting._id), done), Stale);
});

t.test('a void beside a regrade of the attempt is decided again', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { stamp: 'another' } });
  const act = { actId: 'a', by: 'admin-1', reason: REASON };
  await t.rejects(
    inTransaction(mongo, 60_000, (commit) => voidAttempt(mongo, attempt, act, commit)),
    Stale,
  );
  t.equal((await stored(attempt._id)).voidedAt ?? null, null);
});

t.test('a restored attempt announces a regrade of which its student has not heard, once', async (t) => {
  const examId = `exam-${newId()}`;
  const attempt = await storeAttempt(mongo, { ...graded(), examId });
  const act = (of: typeof voidRoute) => of(deps, call({ reason: REASON }, { attemptId: attempt._id }));
  const [notices, id] = [mongo.db.collection(NOTICES), attempt._id];
  const deliver = () => notices.updateMany({ subject: id }, { $set: { status: 'DONE' } });
  const regradeTo = async (option: string) => {
    const preview = await create(examId, [{ questionId: 'choice', answerKey: { correctOptionIds: [option] } }]);
    await apply(examId, viewOf(preview).id);
    return viewOf(preview).id;
  };
  const idsOf = (...ends: string[]) =>
    ends.flatMap((end) => [`${id}:notification:${end}`, `${id}:notification:${end.replace(/ed/, 'ed_parent')}`]).sort();
  const told = async () => (await noticesOf(attempt)).sort();

  await regradeTo('b');
  await act(voidRoute);
  t.strictSame(await told(), [], 'undelivered notices are withdrawn');
  await act(restoreAttempt);
  t.strictSame(await told(), idsOf('grade_released'), 'the first announcement tells of the regrade too');
  await deliver();
  await act(voidRoute);
  await act(restoreAttempt);
  t.strictSame(await told(), idsOf('grade_released'), 'not again');
  const second = await regradeTo('a');
  for (const round of ['first', 'second']) {
    await act(voidRoute);
    t.strictSame(await told(), idsOf('grade_released'), `the ${round} void withdraws that of the regrade`);
    await act(restoreAttempt);
    t.strictSame(await told(), idsOf('grade_released', `regraded:${second}`), `the ${round} restore queues it`);
  }
  await deliver();

  await act(voidRoute);
  await regradeTo('b');
  const newest = await regradeTo('a');
  t.strictSame(await told(), idsOf('grade_released', `regraded:${second}`), 'a voided attempt announces nothing');
  await act(restoreAttempt);
  const all = idsOf('grade_released', `regraded:${second}`, `regraded:${newest}`);
  t.strictSame(await told(), all, 'then the newest regrade alone');
  await deliver();
  await act(voidRoute);
  await act(restoreAttempt);
  t.strictSame(await told(), all, 'and nothing twice');
});

t.test('a repeated request is one regrade, and pages meet each once', async (t) => {
  const examId = `exam-${newId()}`;
  await storeAttempt(mongo, { ...graded(), examId });
  const key = newId();
  const changes = [{ questionId: 'choice', award: 'FULL' as const }];
  const replies = await Promise.all(Array.from({ length: 4 }, () => create(examId, changes, TEACHER, key)));
  t.equal(new Set(replies.map((reply) => viewOf(reply).id)).size, 1);
  const ids = new Set(replies.map((reply) => viewOf(reply).id));
  t.strictSame(await create(examId, [{ questionId: 'none', award: 'FULL' }], TEACHER, key), replies[0]);
  for (let n = 0; n < 2; n++) ids.add(viewOf(await create(examId, changes)).id);
  t.equal(await regrades(mongo).countDocuments({ examId }), 3);

  const met: string[] = [];
  let before: string | undefined;
  do {
    const query = { limit: 1, ...(before === undefined ? {} : { before }) };
    const reply = await readRegrades(deps, { ...call({}, { examId }), query } as never);
    if (isRejection(reply)) throw new Error(reply.rejected);
    const { items, next } = reply.data as { items: View[]; next: string | null };
    met.push(...items.map(({ id }) => id));
    before = next ?? undefined;
  } while (before !== undefined);
  t.strictSame([...met].sort(), [...ids].sort());
});

t.test('a regrade is discarded once, and a repeat with the same key answers as the first request did', async (t) => {
  const examId = `exam-${newId()}`;
  await storeAttempt(mongo, { ...graded(), examId });
  const { id } = viewOf(await create(examId, [{ questionId: 'choice', award: 'FULL' }]));
  const keys = Array.from({ length: 4 }, () => newId());
  const replies = await Promise.all(keys.map((key) => discard(examId, id, key)));
  t.equal(replies.filter((reply) => !isRejection(reply)).length, 1, 'one of several at the same moment');
  for (const [index, first] of replies.entries()) {
    t.match(first, isRejection(first) ? { rejected: 'REGRADE_STATE_CONFLICT' } : { status: 200 });
    t.strictSame(await discard(examId, id, keys[index]), first);
  }
  t.strictSame(await discard(examId, id), { rejected: 'REGRADE_STATE_CONFLICT' }, 'another key is another act');
  t.strictSame(await apply(examId, id), { rejected: 'REGRADE_STATE_CONFLICT' });
  t.match(await regrades(mongo).findOne({ _id: id }), { state: 'DISCARDED' });
  t.equal(await operatorAudit(mongo).countDocuments({ subject: examId, action: 'exam.regrade-discarded' }), 1);
});

t.test('changes that fit no paper of the exam are refused, and nothing is stored', async (t) => {
  const examId = `exam-${newId()}`;
  await storeAttempt(mongo, { ...graded(), examId });
  t.match(await create(examId, [{ questionId: 'none', award: 'FULL' }]), { rejected: 'QUESTION_NOT_IN_EXAM' });
  t.match(await create(examId, [{ questionId: 'choice' }]), {
    rejected: 'VALIDATION_FAILED',
    details: [{ path: '/changes/0' }],
  });
  t.match(await create(examId, [{ questionId: 'choice', answerKey: { correctOptionIds: ['z'] } }]), {
    details: [{ path: '/changes/0/answerKey/correctOptionIds/0' }],
  });
  t.match(await create(examId, [{ questionId: 'choice', award: 'FULL' }], { id: 'stranger', role: 'TEACHER' }), {
    rejected: 'EXAM_NOT_FOUND',
  });
  t.equal(await regrades(mongo).countDocuments({ examId }), 0);
  t.match(await apply(examId, 'none'), { rejected: 'REGRADE_NOT_FOUND' });
});

t.test('a teacher regrades the own attempts alone, and sees their rows alone', async (t) => {
  const examId = `exam-${newId()}`;
  const own = await storeAttempt(mongo, { ...graded(), examId });
  const scope = { createdById: 'teacher-9', assignedClassroomIds: [], resultViewerTeacherIds: [] };
  const other = await storeAttempt(mongo, { ...graded(), examId, scope });
  const changes = [{ questionId: 'choice', answerKey: { correctOptionIds: ['c'] } }];
  const byAdmin = viewOf(await create(examId, changes, ADMIN));
  t.equal(byAdmin.attempts, 2);
  t.equal((await rowsOf(examId, byAdmin.id, ADMIN)).length, 2);
  t.strictSame(
    (await rowsOf(examId, byAdmin.id)).map(({ attemptId }) => attemptId),
    [own._id],
  );

  t.strictSame(await apply(examId, byAdmin.id), { rejected: 'FORBIDDEN' }, 'nor applies what is about others too');

  const byTeacher = viewOf(await create(examId, changes));
  t.match(byTeacher, { attempts: 1, changed: 1 });
  await apply(examId, byTeacher.id);
  t.match(await stored(own._id), { totalScore: 0 });
  t.strictSame(await stored(other._id), other);
  await until(
    'the lines are stored',
    async () => (await regradeLines(mongo).countDocuments({ regradeId: byTeacher.id })) === 1,
  );
});

t.test('a teacher applies and discards the regrades of others whose attempts the teacher examines all', async (t) => {
  const examId = `exam-${newId()}`;
  const scopeOf = (...ids: string[]) => ({
    createdById: 'teacher-1',
    assignedClassroomIds: [],
    resultViewerTeacherIds: ids,
  });
  const one = await storeAttempt(mongo, { ...graded(), examId, scope: scopeOf('teacher-5', 'teacher-6') });
  const [colleague, third] = ['teacher-5', 'teacher-6'].map((id) => ({ id, role: 'TEACHER' }));
  const changes = [{ questionId: 'choice', answerKey: { correctOptionIds: ['b'] } }];
  const [byAdmin, byTeacher, last] = [
    viewOf(await create(examId, changes, ADMIN)),
    viewOf(await create(examId, [{ questionId: 'choice', award: 'FULL' }])),
    viewOf(await create(examId, changes)),
  ];
  t.match(viewOf((await apply(examId, byAdmin.id, colleague)) as never), { state: 'APPLIED' });
  t.match(await stored(one._id), { totalScore: 0 });
  const key = newId();
  const discardBy = (id: string, by: string = newId()) =>
    discardRegrade(deps, call({ reason: REASON }, { examId, regradeId: id }, colleague, by));
  const discarded = await discardBy(byTeacher.id, key);
  t.match(discarded, { status: 200 });

  const late = await storeAttempt(mongo, { ...SUBMITTED, examId, scope: scopeOf() });
  t.strictSame(await apply(examId, last.id, colleague), { rejected: 'FORBIDDEN' }, 'one of them is of another');
  t.strictSame(await discardBy(last.id), { rejected: 'FORBIDDEN' });
  t.strictSame(await discardBy(byTeacher.id, key), discarded, 'a repeat ends as the first request did');
  t.match(await apply(examId, byAdmin.id, third), { status: 200 }, 'and is no concern of the one that is applied');
  await grade(late);
  t.match(await stored(late._id), { totalScore: 1 }, 'one that the colleague does not examine keeps its key');
});

t.test(
  'a regraded attempt names who applied the regrade and why, and its maker reads the act of another',
  async (t) => {
    const examId = `exam-${newId()}`;
    const { _id } = await storeAttempt(mongo, { ...graded(), examId });
    const { id: regradeId } = viewOf(
      await create(examId, [{ questionId: 'choice', answerKey: { correctOptionIds: ['b'] } }]),
    );
    const applied = await apply(examId, regradeId, ADMIN, 'the department agrees');
    t.match(viewOf(applied as never), { by: TEACHER.id, reason: REASON }, 'the regrade names its maker');
    const { events, scoreHistory } = await stored(_id);
    const act = { regradeId, by: ADMIN.id, reason: 'the department agrees' };
    t.match(JSON.parse(events.at(-1)?.metadata ?? ''), act);
    t.match(scoreHistory?.at(-1), { cause: 'REGRADE', ...act });

    const posted = await mailboxOf(mongo, 'examroom').findOne({ 'body.kind': 'REGRADE_APPLY', subject: examId });
    const read = (actor: typeof TEACHER) => readExamAct(deps, call({}, { actId: posted?._id ?? '' }, actor));
    t.match(await read(TEACHER), { data: { act: { kind: 'REGRADE_APPLY', state: 'DONE', result: { regradeId } } } });
    t.match(
      await read({ id: 'teacher-2', role: 'TEACHER' }),
      { status: 200 },
      'who may apply it, and gets the act in a 202',
    );
    await storeAttempt(mongo, {
      ...graded(),
      examId,
      scope: { createdById: 'teacher-1', assignedClassroomIds: [], resultViewerTeacherIds: [] },
    });
    for (const id of ['stranger', 'teacher-2'])
      t.strictSame(await read({ id, role: 'TEACHER' }), { rejected: 'EXAM_ACT_NOT_FOUND' });
  },
);

t.test('a regrade that races gradings, grades by hand and another regrade reaches every attempt', async (t) => {
  for (const name of ['grading', 'essayhandoff', 'examroom']) open(name);
  const met = new Set<string>();
  for (let round = 0; round < 6; round++) {
    const examId = `exam-${newId()}`;
    const sitting = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        storeAttempt(mongo, n < 4 ? { ...graded(), examId } : { ...SUBMITTED, examId }),
      ),
    );
    const first = viewOf(await create(examId, [{ questionId: 'choice', answerKey: { correctOptionIds: ['b'] } }]));
    const second = viewOf(await create(examId, [{ questionId: 'essay', award: 'EXCLUDE' }]));
    await Promise.all([
      delay(round * 3).then(() => apply(examId, first.id)),
      delay(round * 2).then(() => apply(examId, second.id)),
      ...sitting.map(async (attempt, n) => {
        await delay(n);
        if (n >= 4) await postGrading(mongo, attempt);
        if (n % 3 === 0) await postHandoff(mongo, attempt);
      }),
    ]);
    await until(
      'all are graded',
      async () => (await attempts(mongo).countDocuments({ examId, status: 'GRADED' })) === 12,
    );
    await until(
      'both are applied',
      async () => (await regrades(mongo).countDocuments({ examId, state: 'APPLIED' })) === 2,
    );
    for (const { _id } of sitting) {
      const after = await stored(_id);
      t.match(after, { totalScore: 0, maxScore: 1, correctCount: 0, wrongCount: 1, pendingManualCount: 0 }, _id);
      t.match(after.answers, { q0: { isCorrect: false, score: 0 }, q1: { isCorrect: null, score: null } });
      const regraded = after.events.filter(({ type }) => type === 'REGRADED').length;
      met.add(`${regraded}`);
      const announced = (await noticesOf(after)).filter((key) => key.includes(':regraded:')).length;
      t.ok(announced <= regraded, 'what did not change is not announced');
    }
  }
  t.ok(met.has('0') && met.size > 1, `regrades of an attempt: ${[...met]}`);
});
