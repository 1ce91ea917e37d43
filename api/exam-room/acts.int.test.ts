import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { saveOneAnswer } from '#api/attempt/save-answer.ts';
import { startAttempt } from '#api/attempt/start.ts';
import { submitOverdue } from '#api/attempt/submit.ts';
import { attempts, examActs, seats } from '#infra/mongo/attempt/collections.ts';
import { exams } from '#infra/mongo/attempt/exams.ts';
import { extendDeadline } from '#infra/mongo/attempt/extra-time.ts';
import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
import { COMMANDS, type CommandOf, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { readTrace } from '#infra/mongo/operations/trace.ts';
import { operatorAudit, verifyAudit } from '#infra/mongo/operator-audit.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { redactAttempt } from '#shared/attempt/redact.ts';
import type { StartRequest, SubmitRequest } from '#shared/generated/attempt.ts';
import type { ExtraTimeRequest, SubmitAllRequest } from '#shared/generated/exam-room.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR, MINUTE } from '#shared/kernel/time.ts';
import { testKernel, testWorker, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { type StartChange, startBody } from '#testing/clients/attempt-client.ts';
import { callOf, callWith, inProcessDoor, startedAttempt } from '#testing/doors/in-process-door.ts';
import { sampleAnswer, samplePaper } from '#testing/stored/sample-attempt.ts';
import { postGrading, postHandoff, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { lateShard, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { readExamAct } from './acts.ts';
import { reopenAttempt, restoreAttempt, voidAttempt } from './attempt-acts.ts';
import { giveExtraTime } from './extra-time.ts';
import { submitAll, submitOrHandIn } from './submit.ts';

const mongo = await openTestMongo(t);
const open = (actor: string) =>
  testWorker(t, testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)), { pollMs: 200 });
const deps = inProcessDoor(mongo, { examroom: [open('examroom')], grading: [open('grading')] });

const TEACHER = { id: 'teacher-1', role: 'TEACHER' };
const ADMIN = { id: 'admin-1', role: 'ADMIN' };
const REASON = 'the fire alarm';

/** Returns a call of an examiner with an idempotency key. */
function byExaminer<Body>(body: Body, params: Record<string, string>, actor = TEACHER, key: string = newId()) {
  return callWith(body, { params, identity: { actor, idempotency: { key, header: 'idempotency-key' } } });
}

function give(examId: string, body: Partial<ExtraTimeRequest> = {}, actor = TEACHER, key?: string) {
  return giveExtraTime(deps, byExaminer({ minutes: 10, reason: REASON, ...body }, { examId }, actor, key));
}

async function started(examId: string, studentId: string, change: StartChange = {}) {
  const body = startBody(examId, change) as never as StartRequest;
  return startedAttempt(await startAttempt(deps, callOf(body, { examId }, studentId, newId())));
}

const deadlineOf = async (_id: string) => (await attempts(mongo).findOne({ _id }))?.deadlineAt?.getTime() ?? null;
const eventsOf = (attempt: Attempt | null) => attempt?.events.map(({ type }) => type);

t.test('extra time moves the deadline of open attempts, past close time, and adds up', async (t) => {
  const examId = `exam-${newId()}`;
  const closeTime = new Date(Date.now() + HOUR / 2);
  const exam = { closeTime: closeTime.toISOString() };
  const [one, two] = [await started(examId, 'time-1', { exam }), await started(examId, 'time-2', { exam })];
  const over = await storeAttempt(mongo, { ...SUBMITTED, examId });
  t.equal(Date.parse(one.deadlineAt), closeTime.getTime());

  const first = await give(examId, { studentIds: ['time-1', 'time-3', 'time-1'] });
  t.match(first, { status: 200, data: { minutes: 10, updated: 1, remembered: 1 } });
  t.match(await give(examId, { minutes: 5 }, ADMIN), { data: { minutes: 5, updated: 2, remembered: null } });
  t.equal(await deadlineOf(one.id), closeTime.getTime() + 15 * MINUTE);
  t.equal(await deadlineOf(two.id), closeTime.getTime() + 5 * MINUTE);
  t.equal(await deadlineOf(over._id), over.deadlineAt?.getTime(), 'a submitted attempt keeps its deadline');

  const late = await started(examId, 'time-3', { exam });
  t.equal(Date.parse(late.deadlineAt), closeTime.getTime() + 15 * MINUTE, 'remembered for a later start');
  const stored = await attempts(mongo).findOne({ _id: late.id });
  t.match(stored, { extraMinutes: 15, eventSeq: 3 });
  t.strictSame(eventsOf(stored), ['START', 'TIME_EXTENDED', 'TIME_EXTENDED']);
  t.equal(
    (await started(examId, 'time-4', { exam: { ...exam, createdById: 'other', resultViewerTeacherIds: [] } }))
      .deadlineAt,
    new Date(closeTime.getTime() + 5 * MINUTE).toISOString(),
    'a teacher gives time to the own attempts alone',
  );
  const closed = { ...exam, closeTime: new Date(Date.now() - 1_000).toISOString() };
  await t.rejects(started(examId, 'time-5', { exam: closed }), { message: 'EXAM_CLOSED' });

  const rows = await operatorAudit(mongo).find({ subject: examId }).toArray();
  t.match(rows, [
    { action: 'exam.extra-time', operator: 'teacher-1', reason: REASON, detail: { minutes: 10, updated: 1, named: 2 } },
    { operator: 'admin-1', detail: { minutes: 5, updated: 2, remembered: null, named: null } },
  ]);
  t.equal((await verifyAudit(mongo, null)).fault, null);
});

t.test('an exam may run until its latest deadline, also one that an examiner has moved', async (t) => {
  const examId = `exam-${newId()}`;
  const exam = { closeTime: new Date(Date.now() + HOUR / 2).toISOString() };
  const { id: attemptId } = await started(examId, 'list-1', { exam });
  const isActiveAt = async (time: number) =>
    ((await exams(mongo).findOne({ _id: examId }))?.activeUntil.getTime() ?? 0) > time;

  await give(examId, { minutes: 300 });
  t.ok(await isActiveAt((await deadlineOf(attemptId)) ?? 0), 'extra time');
  await attempts(mongo).updateOne({ _id: attemptId }, { $set: SUBMITTED });
  const reopened = await reopenAttempt(deps, byExaminer({ minutes: 600, reason: REASON }, { attemptId }));
  t.match(reopened, { status: 200 });
  t.ok(await isActiveAt((await deadlineOf(attemptId)) ?? 0), 'a reopening');
  t.ok(((await deadlineOf(attemptId)) ?? 0) > Date.now() + 599 * MINUTE);
});

t.test('a repeat of an act answers as the first did, and a key is of one caller, kind and exam', async (t) => {
  const examId = `exam-${newId()}`;
  const { id } = await started(examId, 'repeat-1');
  const [before, key] = [await deadlineOf(id), newId()];
  const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => give(examId, {}, TEACHER, key)));
  for (const other of others) t.strictSame(other, first);
  t.strictSame(await give(examId, { minutes: 600 }, TEACHER, key), first, 'whatever the body of the repeat is');
  t.equal(await deadlineOf(id), (before ?? 0) + 10 * MINUTE);
  t.match(await give(examId, {}, ADMIN, key), { data: { updated: 1 } });
  t.equal(await examActs(mongo).countDocuments({ examId }), 2);

  const { data } = first as { data: { id: string } };
  const read = (actor: typeof TEACHER) =>
    readExamAct(deps, callWith({}, { params: { actId: data.id }, identity: { actor } }));
  t.match(await read(TEACHER), {
    data: { act: { id: data.id, state: 'DONE', kind: 'EXTRA_TIME', error: null, result: data } },
  });
  t.match(await read(ADMIN), { status: 200 });
  t.strictSame(await read({ id: 'teacher-2', role: 'TEACHER' }), { rejected: 'EXAM_ACT_NOT_FOUND' });
});

t.test('an exam is unknown to those who examine none of its attempts', async (t) => {
  const examId = `exam-${newId()}`;
  t.strictSame(await give(examId, {}, ADMIN), { rejected: 'EXAM_NOT_FOUND' });
  await started(examId, 'unknown-1');
  t.strictSame(await give(examId, {}, { id: 'stranger', role: 'TEACHER' }), { rejected: 'EXAM_NOT_FOUND' });
  t.match(
    await give(examId, {}, { id: 'teacher-2', role: 'TEACHER' }),
    { status: 200 },
    'a result viewer examines too',
  );
  t.equal(await mailboxOf(mongo, 'examroom').countDocuments({ subject: examId }), 1, 'a refused act stores nothing');
});

t.test('extra time leaves an attempt alone whose new deadline has passed too, or that has none', async (t) => {
  const examId = `exam-${newId()}`;
  const ago = (minutes: number) => new Date(Date.now() - minutes * MINUTE);
  const gone = await storeAttempt(mongo, { examId, deadlineAt: ago(11) });
  const back = await storeAttempt(mongo, { examId, deadlineAt: ago(9) });
  const free = await storeAttempt(mongo, { examId, deadlineAt: null });
  const studentIds = [gone, back, free].map(({ studentId }) => studentId);
  t.match(await give(examId, { studentIds }), { data: { updated: 1, remembered: 0 } });
  t.equal(await deadlineOf(gone._id), gone.deadlineAt?.getTime());
  t.equal(await deadlineOf(back._id), (back.deadlineAt?.getTime() ?? 0) + 10 * MINUTE);
  t.equal(await deadlineOf(free._id), null);
});

t.test('a deadline that moves is the old or the new one for a save and a submit of the same instant', async (t) => {
  const minutes = 3;
  const instant = fc.record({ from: fc.constantFrom('old', 'new'), inMs: fc.integer({ min: -25, max: 25 }) });
  const moment = fc.integer({ min: 0, max: 30 });
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(instant, moment, moment, moment, async ({ from, inMs }, grantIn, saveIn, sweepIn) => {
      // The old deadline, or the new one, comes while the three writes race.
      const old = new Date(Date.now() + inMs + 15 - (from === 'new' ? minutes * MINUTE : 0));
      const attempt = await storeAttempt(mongo, { deadlineAt: old, answers: {} });
      const grant = {
        _id: newId(),
        minutes,
        by: { id: 'teacher-1', role: 'TEACHER' as const },
        reason: REASON,
        at: old,
      };
      const body = { questionId: 'choice', answer: { selectedOptionIds: ['a'] } };
      const [saved] = await Promise.all([
        delay(saveIn).then(() => saveOneAnswer(deps, callOf(body, { attemptId: attempt._id }, attempt.studentId))),
        delay(grantIn).then(() => extendDeadline(mongo, attempt, grant)),
        // A worker that lost its lease may do the step of its successor at the same time.
        delay(grantIn).then(() => extendDeadline(mongo, attempt, grant)),
        delay(sweepIn).then(() => submitOverdue(deps, attempt)),
      ]);

      const after = await attempts(mongo).findOne({ _id: attempt._id });
      if (after === null) throw new Error('the attempt is lost');
      const later = new Date(old.getTime() + minutes * MINUTE);
      const isMoved = after.extraTime !== undefined;
      const types = after.events.map(({ type }) => type);
      seen.add(
        `${from} ${isMoved ? 'moved' : 'kept'} ${isRejection(saved) ? saved.rejected : 'saved'} ${after.status === 'IN_PROGRESS'}`,
      );
      t.same(after.deadlineAt, isMoved ? later : old, 'the old deadline or the new one');
      t.equal(types.includes('TIME_EXTENDED'), isMoved, 'a move is logged');
      if (after.status !== 'IN_PROGRESS')
        t.same(after.submittedAt, after.deadlineAt, 'submitted as of the deadline that was in force');
      if (isRejection(saved))
        return void t.not(after.status, 'IN_PROGRESS', `${saved.rejected} only of a submitted attempt`);
      const at = after.answers.q0?.updatedAt ?? later;
      const before = types.indexOf('SAVE_ANSWER') > types.indexOf('TIME_EXTENDED') && isMoved ? later : old;
      t.ok(at < before, 'a save is before the deadline that was in force');
    }),
    { numRuns: 60 },
  );
  t.comment([...seen].sort().join('; '));
});

function handIn(attemptId: string, body: Partial<SubmitRequest> = {}, actor = TEACHER, key?: string) {
  return submitOrHandIn(deps, byExaminer({ source: 'TEACHER', reason: REASON, ...body }, { attemptId }, actor, key));
}

t.test('an examiner hands an attempt in, and gets the grade as its student would', async (t) => {
  const attempt = await storeAttempt(mongo, { deadlineAt: new Date(Date.now() - MINUTE) });
  const before = Date.now();
  const reply = await handIn(attempt._id);
  const stored = await attempts(mongo).findOne({ _id: attempt._id });
  t.match(stored, { status: 'GRADED', submittedBy: 'TEACHER', totalScore: 1 });
  t.ok((stored?.submittedAt?.getTime() ?? 0) >= before - 1_000, 'submitted now, although the deadline has passed');
  const named = { by: 'teacher-1', reason: REASON };
  t.match(JSON.parse(stored?.events.at(-1)?.metadata ?? ''), { source: 'TEACHER', totalScore: 1, ...named });
  const byStudent = callOf({}, { attemptId: attempt._id }, attempt.studentId);
  const seen = attemptOf(await submitOrHandIn(deps, byStudent)).events;
  t.match(seen, [{ type: 'START' }, { type: 'SUBMIT', metadata: { source: 'TEACHER', actId: String } }]);
  t.notMatch(JSON.stringify(seen), new RegExp(`${REASON}|teacher-1`), 'its student does not see who did it, and why');
  t.equal(stored?.events.at(-1)?.type, 'SUBMIT');
  t.match(reply, { status: 200, data: { status: 'GRADED', submittedBy: 'TEACHER', totalScore: 1 } });

  t.match(
    await handIn(attempt._id),
    { status: 200, data: { status: 'GRADED' } },
    'a submitted attempt is not handed in again',
  );
  t.strictSame(await handIn(attempt._id, {}, { id: 'stranger', role: 'TEACHER' }), { rejected: 'FORBIDDEN' });
  t.strictSame(await handIn(newId()), { rejected: 'ATTEMPT_NOT_FOUND' });
  const rows = await operatorAudit(mongo).find({ subject: attempt._id }).toArray();
  t.match(rows, [{ action: 'attempt.submit', operator: 'teacher-1', reason: REASON }]);
  t.equal(rows.length, 1);
});

t.test(
  'a repeat of a submit by an examiner answers as the first did, also once the attempt is open again',
  async (t) => {
    const { _id } = await storeAttempt(mongo);
    const [first, second] = [newId(), newId()];
    t.match(await handIn(_id, {}, TEACHER, first), { status: 200, data: { status: 'GRADED' } });
    await reopen(_id);
    t.match(
      await handIn(_id, {}, TEACHER, first),
      { status: 200, data: { status: 'IN_PROGRESS' } },
      'and submits nothing',
    );
    t.match(await handIn(_id, {}, TEACHER, second), { status: 200, data: { status: 'GRADED' } }, 'another key does');
    await reopen(_id);
    for (const key of [first, second])
      t.match(await handIn(_id, {}, TEACHER, key), { status: 200, data: { status: 'IN_PROGRESS' } });
    t.match(await attempts(mongo).findOne({ _id }), { round: 3, status: 'IN_PROGRESS' });
  },
);

t.test('a submit by an examiner waits for its act and its grade in one time', async (t) => {
  const waits: number[] = [];
  const submitWith = async (isInTime: boolean) => {
    const { _id: attemptId } = await storeAttempt(mongo);
    const register: typeof deps.replies.register = (id) => ({
      ...deps.replies.register(id),
      async settled(options) {
        waits.push(options.timeoutMs);
        return isInTime && deps.replies.register(id).settled(options);
      },
    });
    const door = { ...deps, replies: { ...deps.replies, register } };
    const reply = await submitOrHandIn(door, byExaminer({ source: 'TEACHER', reason: REASON }, { attemptId }));
    return [reply, waits.splice(0)] as const;
  };
  const [reply, [forAct = 0, forGrade = 0]] = await submitWith(true);
  t.match(reply, { status: 200 });
  t.equal(forAct, deps.settings.gradingWaitMs);
  t.ok(forGrade > 0 && forGrade < forAct, 'the grade has the rest');
  const [late, ofLate] = await submitWith(false);
  t.equal(ofLate.length, 1, 'none is left after an act that is late');
  t.match(late, { status: 202 });
});

t.test('a submit by an examiner finds its grading although the shard of that does not show it yet', async (t) => {
  const { _id: attemptId } = await storeAttempt(mongo);
  const late = lateShard(mongo, { [COMMANDS]: (row) => (row.queue === 'grading' ? null : row) });
  const door = inProcessDoor(late.mongo, { examroom: [open('examroom')], grading: [open('grading')] });
  const reply = await submitOrHandIn(door, byExaminer({ source: 'TEACHER', reason: REASON }, { attemptId }));
  t.match(reply, { status: 200, data: { status: 'GRADED' } });
  t.ok(late.arrived.has(COMMANDS));
});

t.test('a submit names who makes it, and an examiner states why', async (t) => {
  const { _id: attemptId, studentId } = await storeAttempt(mongo, { deadlineAt: null });
  const byStudent = (body: SubmitRequest) => submitOrHandIn(deps, callOf(body, { attemptId }, studentId));
  const faults = async (reply: ReturnType<typeof byStudent>) => {
    const rejection = await reply;
    if (!isRejection(rejection)) throw new Error('a faulty submit was accepted');
    return [rejection.rejected, ...(rejection.details ?? []).map(({ path }) => path)];
  };
  t.strictSame(await faults(byStudent({ source: 'TEACHER' })), ['VALIDATION_FAILED', '/source']);
  t.strictSame(await faults(byStudent({ reason: REASON })), ['VALIDATION_FAILED', '/reason']);
  const asExaminer = (body: SubmitRequest, key?: string) => {
    const call = byExaminer(body, { attemptId });
    return submitOrHandIn(deps, key === '' ? { ...call, identity: { actor: TEACHER } } : call);
  };
  t.strictSame(await faults(asExaminer({ source: 'STUDENT' })), ['FORBIDDEN'], 'a teacher is not its student');
  t.strictSame(await faults(asExaminer({ source: 'TEACHER' })), ['VALIDATION_FAILED', '/reason']);
  t.strictSame(await faults(asExaminer({ source: 'TEACHER', reason: REASON }, '')), ['IDEMPOTENCY_KEY_REQUIRED']);
  t.match(await attempts(mongo).findOne({ _id: attemptId }), { status: 'IN_PROGRESS', eventSeq: 1 });
});

t.test('submit-all submits whom it names, once each, and leaves the attempts of other examiners', async (t) => {
  const examId = `exam-${newId()}`;
  const deadlineAt = new Date(Date.now() + HOUR);
  const rows = await Promise.all(Array.from({ length: 5 }, () => storeAttempt(mongo, { examId, deadlineAt })));
  const foreign = await storeAttempt(mongo, {
    examId,
    deadlineAt,
    scope: { createdById: 'other', assignedClassroomIds: [], resultViewerTeacherIds: [] },
  });
  const all = (body: Partial<SubmitAllRequest>, key: string = newId()) =>
    submitAll(deps, byExaminer({ reason: REASON, ...body }, { examId }, TEACHER, key));
  const key = newId();
  const named = [rows[0]?.studentId ?? '', foreign.studentId];
  t.match(await all({ studentIds: named }), { status: 200, data: { submitted: 1 } });
  const [first, second] = await Promise.all([all({}, key), all({}, key)]);
  t.match(first, { data: { submitted: 4 } });
  t.strictSame(second, first);
  const status = async (status: Attempt['status']) => attempts(mongo).countDocuments({ examId, status });
  await until('all are graded', async () => (await status('GRADED')) === 5);
  t.equal(await status('IN_PROGRESS'), 1, 'the attempt of another teacher is open');
  const submitted = await attempts(mongo).find({ examId, submittedBy: 'TEACHER' }).toArray();
  t.equal(submitted.length, 5);
  for (const { events } of submitted)
    t.match(JSON.parse(events.at(-1)?.metadata ?? ''), { by: 'teacher-1', reason: REASON });
});

type Acted = Awaited<ReturnType<typeof reopenAttempt>>;

/** Returns the attempt of a reply, which is JSON in parts or an object. */
function attemptOf(reply: Acted): Record<string, unknown> {
  if (isRejection(reply)) throw new Error(reply.rejected);
  return (reply.kind === 'text' ? JSON.parse(reply.data.join('')) : reply.data) as Record<string, unknown>;
}

const reopen = (attemptId: string, minutes = 20) =>
  reopenAttempt(deps, byExaminer({ minutes, reason: REASON }, { attemptId }));
const makeVoid = (attemptId: string) => voidAttempt(deps, byExaminer({ reason: REASON }, { attemptId }));
const restore = (attemptId: string) => restoreAttempt(deps, byExaminer({ reason: REASON }, { attemptId }));
const noticesOf = async (attemptId: string) =>
  (await mongo.db.collection(NOTICES).find({ 'body.attemptId': attemptId }).toArray())
    .map(({ _id }) => `${_id}`)
    .sort();
const noticeIds = (id: string, end = '') => [
  `${id}:notification:grade_released${end}`,
  `${id}:notification:grade_released_parent${end}`,
];

t.test(
  'a voided attempt counts for no limit, has no notice and hides its result, and a restore undoes it',
  async (t) => {
    const examId = `exam-${newId()}`;
    const change = { exam: { maxAttempts: 1 } };
    const { id } = await started(examId, 'void-1', change);
    const reply = attemptOf(await makeVoid(id));
    t.match(
      reply,
      { voidedBy: 'teacher-1', voidReason: REASON, submittedBy: 'TEACHER' },
      'an open one is submitted first',
    );
    await until('it is graded', async () => (await attempts(mongo).findOne({ _id: id }))?.status === 'GRADED');
    const { events = [] } = (await attempts(mongo).findOne({ _id: id })) ?? {};
    t.match(JSON.parse(events.at(-1)?.metadata ?? ''), { source: 'TEACHER', by: 'teacher-1', reason: REASON });
    t.strictSame(await noticesOf(id), [], 'no notice of a voided attempt');
    const again = attemptOf(await makeVoid(id));
    t.equal(again.voidedAt, reply.voidedAt, 'a void of a voided attempt changes nothing');

    const stored = await attempts(mongo).findOne({ _id: id });
    if (stored === null) throw new Error('the attempt is lost');
    const seen = (role: 'STUDENT' | 'TEACHER') =>
      redactAttempt(
        { attempt: stored, paper: samplePaper({}), events: stored.events },
        { role, id: role === 'STUDENT' ? 'void-1' : 'teacher-1' },
        new Date(),
      );
    t.match(seen('STUDENT'), {
      resultVisible: false,
      hiddenReason: 'Bài làm đã bị huỷ.',
      totalScore: null,
      voidedBy: 'teacher-1',
    });
    t.notMatch(
      JSON.stringify(seen('STUDENT')),
      new RegExp(`${REASON}|scoreHistory`),
      'a student sees neither reason nor history',
    );
    t.match(seen('TEACHER'), {
      resultVisible: true,
      totalScore: 0,
      voidReason: REASON,
      scoreHistory: [{ cause: 'GRADE' }],
    });

    t.match(attemptOf(await restore(id)), { status: 'GRADED', resultVisible: true });
    t.strictSame(await noticesOf(id), noticeIds(id), 'announced once it counts again');
    t.strictSame(await restore(id), { rejected: 'ATTEMPT_NOT_VOIDED' });
    await makeVoid(id);
    t.strictSame(await noticesOf(id), [], 'undelivered notices are withdrawn');

    const second = await started(examId, 'void-1', change);
    t.match(await attempts(mongo).findOne({ _id: second.id }), { attemptNumber: 2 }, 'the voided one does not count');
    t.strictSame(await restore(id), { rejected: 'ATTEMPT_LIMIT_REACHED' });
    const types = eventsOf(await attempts(mongo).findOne({ _id: id }));
    t.strictSame(types, ['START', 'VOIDED', 'SUBMIT', 'RESTORED', 'VOIDED']);
  },
);

t.test('the limit of a restore is that of the newest start of the student, voided or not', async (t) => {
  const examId = `exam-${newId()}`;
  const startWith = (maxAttempts: number) => started(examId, 'limit-1', { exam: { maxAttempts } });
  const first = await startWith(1);
  await makeVoid(first.id);
  const second = await startWith(2);
  await handIn(second.id);
  t.match(attemptOf(await restore(first.id)), { attemptNumber: 1 }, 'a teacher has allowed one more');
  await makeVoid(first.id);
  await makeVoid(second.id);
  const third = await startWith(1);
  await makeVoid(third.id);
  t.match(attemptOf(await restore(second.id)), { attemptNumber: 2 });
  t.strictSame(await restore(first.id), { rejected: 'ATTEMPT_LIMIT_REACHED' }, 'or allows one alone again');
});

/** Returns a front door whose worker does `meanwhile` in its transaction, after its reads and before its first write. */
function doorWithPause(t: Teardown, meanwhile: () => Promise<unknown>) {
  let isFirst = true;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'updateOne' || collection !== 'attempts') return undefined;
    return async (...args) => {
      if (isFirst) {
        isFirst = false;
        await meanwhile();
      }
      return method(...args);
    };
  });
  const paused = { ...mongo, db };
  const own = testWorker(t, testKernel(paused), makeActor('examroom', testWorkerDeps(paused)));
  return inProcessDoor(mongo, { examroom: [own] });
}

t.test('of two restores that would both use the last attempt, one is refused', async (t) => {
  const examId = `exam-${newId()}`;
  const ids: string[] = [];
  for (let n = 0; n < 2; n++) {
    const { id } = await started(examId, 'both', { exam: { maxAttempts: 1 } });
    await makeVoid(id);
    ids.push(id);
  }
  const [first = '', second = ''] = ids;
  let other: Promise<Acted> | undefined;
  const door = doorWithPause(t, () => (other = restore(second)));
  await restoreAttempt(door, byExaminer({ reason: REASON }, { attemptId: first }));
  await other;
  t.equal(await attempts(mongo).countDocuments({ examId, voidedAt: null }), 1);
});

t.test('a restore that relies on a seat which a void frees meanwhile takes one anew', async (t) => {
  const examId = `exam-${newId()}`;
  const link = { id: `link-${newId()}`, mode: 'GUEST_ALLOWED', active: true, studentLimit: 1 };
  const change = { access: { assigned: false, link } };
  const first = await started(examId, 'seat-1', change);
  await makeVoid(first.id);
  const second = await started(examId, 'seat-1', change);
  let other: Promise<Acted> | undefined;
  const door = doorWithPause(t, () => (other = makeVoid(second.id)));
  const restored = await restoreAttempt(door, byExaminer({ reason: REASON }, { attemptId: first.id }));
  await other;
  t.match(attemptOf(restored), { studentId: 'seat-1' });
  await t.rejects(started(examId, 'seat-2', change), { message: 'ACCESS_LINK_FULL' });
});

t.test('of a start and a restore that would both use the last attempt, one is refused', async (t) => {
  for (let n = 0; n < 12; n++) {
    const examId = `exam-${newId()}`;
    const [change, studentId] = [{ exam: { maxAttempts: 1 } }, `last-${n}`];
    const { id } = await started(examId, studentId, change);
    await makeVoid(id);
    const [restored, again] = await Promise.allSettled([restore(id), started(examId, studentId, change)]);
    const ends = [restored.status === 'fulfilled' && !isRejection(restored.value), again.status === 'fulfilled'];
    t.equal(ends.filter(Boolean).length, 1, JSON.stringify(ends));
    t.equal(await attempts(mongo).countDocuments({ examId, voidedAt: null }), 1);
  }
});

t.test('a start whose count a restore has changed since decides anew', async (t) => {
  const [examId, studentId] = [`exam-${newId()}`, 'anew-1'];
  const change = { exam: { maxAttempts: 1 } };
  const { id } = await started(examId, studentId, change);
  await makeVoid(id);
  const starts: typeof deps.starts = {
    ...deps.starts,
    async insert(attempt, reliance) {
      if (attempt.attemptNumber === 2) await restore(id);
      return deps.starts.insert(attempt, reliance);
    },
  };
  const call = callOf(startBody(examId, change) as never as StartRequest, { examId }, studentId, newId());
  t.match(await startAttempt({ ...deps, starts }, call), { rejected: 'ATTEMPT_LIMIT_REACHED' });
  t.equal(await attempts(mongo).countDocuments({ examId }), 1, 'nothing is stored');
});

t.test('the log of an attempt shows its submit, also if a reopening comes before the grade', async (t) => {
  const { id: _id } = await started(`exam-${newId()}`, 'ungraded-1');
  const attempt = { _id, studentId: 'ungraded-1' };
  const act = { actId: 'act-1', by: 'teacher-1', reason: REASON };
  const terms = { overdueByMs: null, maxAttempts: 5, now: Date.now(), budgetMs: 5_000 };
  await markSubmitted(mongo, { ...terms, attempt, source: 'TEACHER', act });
  attemptOf(await reopen(_id));
  const stored = await attempts(mongo).findOne({ _id });
  t.strictSame(eventsOf(stored), ['START', 'SUBMIT', 'REOPENED']);
  t.match(JSON.parse(stored?.events[1]?.metadata ?? ''), { ...act, source: 'TEACHER' });
});

t.test('a reopening that meets an open attempt in its commit decides anew, and spends no attempt', async (t) => {
  const [examId, studentId] = [`exam-${newId()}`, 'beside-anew'];
  const { id } = await started(examId, studentId);
  await handIn(id);
  const own = testWorker(
    t,
    testKernel(mongo),
    withStep(makeActor('examroom', testWorkerDeps(mongo)), async (_, real) => {
      const outcome = await real();
      await started(examId, studentId);
      return outcome;
    }),
  );
  const door = inProcessDoor(mongo, { examroom: [own] });
  const reply = await reopenAttempt(door, byExaminer({ minutes: 20, reason: REASON }, { attemptId: id }));
  t.match(reply, { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: String } });
  const commands = await mailboxOf(mongo, 'examroom').find({ subject: id, status: 'REJECTED' }).toArray();
  t.match(commands, [{ attempts: 1, lastError: null }]);
});

t.test('a voided attempt frees its seat, and its restore takes one again or is refused', async (t) => {
  const examId = `exam-${newId()}`;
  const link = { id: `link-${newId()}`, mode: 'GUEST_ALLOWED', active: true, studentLimit: 1 };
  const change = { access: { assigned: false, link } };
  const { id } = await started(examId, 'seat-1', change);
  await t.rejects(started(examId, 'seat-2', change), { message: 'ACCESS_LINK_FULL' });
  await makeVoid(id);
  const other = await started(examId, 'seat-2', change);
  t.strictSame(await restore(id), { rejected: 'ACCESS_LINK_FULL' });
  await makeVoid(other.id);
  t.match(attemptOf(await restore(id)), { studentId: 'seat-1' });
  await t.rejects(started(examId, 'seat-2', change), { message: 'ACCESS_LINK_FULL' });
});

t.test('a start that relies on a seat which a void frees meanwhile takes one anew', async (t) => {
  const [examId, studentId] = [`exam-${newId()}`, 'held-1'];
  const link = { id: `link-${newId()}`, mode: 'GUEST_ALLOWED', active: true, studentLimit: 1 };
  const change = { access: { assigned: false, link } };
  const { id } = await started(examId, studentId, change);
  await handIn(id);
  const starts: typeof deps.starts = {
    ...deps.starts,
    async insert(attempt, reliance) {
      if (attempt.attemptNumber === 2) await makeVoid(id);
      return deps.starts.insert(attempt, reliance);
    },
  };
  const call = callOf(startBody(examId, change) as never as StartRequest, { examId }, studentId, newId());
  t.match(await startAttempt({ ...deps, starts }, call), { status: 201 });
  t.equal(await seats(mongo).countDocuments({ linkId: link.id, studentId }), 1);
});

t.test('a reopened attempt keeps its answers, and its next submit has keys and notices of its own', async (t) => {
  const essay = { q0: sampleAnswer({ selected: ['a'] }), q1: sampleAnswer({ text: 'Sông Hương' }) };
  const attempt = await storeAttempt(mongo, { answers: essay, order: [0, 1], deadlineAt: new Date(Date.now() + HOUR) });
  const [id, student] = [attempt._id, attempt.studentId];
  const submit = async () => attemptOf(await submitOrHandIn(deps, callOf({}, { attemptId: id }, student)));
  const save = (text: string) =>
    saveOneAnswer(deps, callOf({ questionId: 'essay', answer: { textAnswer: text } }, { attemptId: id }, student));
  t.strictSame(await reopen(id), { rejected: 'ATTEMPT_NOT_SUBMITTED' });
  t.match(await submit(), { status: 'GRADED', totalScore: 1, pendingManualCount: 1 });
  const handoff = testWorker(t, testKernel(mongo), makeActor('essayhandoff', testWorkerDeps(mongo)));
  await handoff.tryRun((await postHandoff(mongo, attempt, { gradedById: 'teacher-2' })) as CommandOf<'essayhandoff'>);
  await handoff.idle();

  const before = Date.now();
  const opened = attemptOf(await reopen(id, 20));
  t.match(opened, {
    status: 'IN_PROGRESS',
    totalScore: null,
    submittedAt: null,
    submittedBy: null,
    durationSeconds: null,
  });
  t.match(opened.answers, [
    { score: null, serverVersion: 1 },
    { score: null, serverVersion: 1 },
  ]);
  t.ok(
    Math.abs(Date.parse(`${opened.deadlineAt}`) - before - 20 * MINUTE) < MINUTE,
    'its deadline is 20 minutes ahead',
  );
  t.match(opened.scoreHistory, [
    { cause: 'GRADE', totalScore: 1, by: null },
    { cause: 'HANDOFF', totalScore: 2.5, by: 'teacher-2' },
    { cause: 'REOPEN', totalScore: null, by: 'teacher-1', reason: REASON },
  ]);
  t.strictSame(await noticesOf(id), [], 'the notices of the old grade are withdrawn');

  t.match(await submit(), { totalScore: 2.5, pendingManualCount: 0 }, 'a grade by hand stands with its answer');
  t.strictSame(await noticesOf(id), noticeIds(id, ':2'));
  await reopen(id);
  t.notOk(isRejection(await save('Sông Hồng')));
  t.match(await submit(), { totalScore: 1, pendingManualCount: 1 }, 'a new answer needs a new grade');
  t.strictSame(await noticesOf(id), noticeIds(id, ':3'));
  const gradings = await mailboxOf(mongo, 'grading').find({ subject: id, queue: 'grading' }).toArray();
  t.strictSame(
    gradings.map(({ key }) => key).sort(),
    ['', ':2', ':3'].map((end) => `grading:${id}${end}`),
  );
  t.match(attemptOf(await reopen(id)), { status: 'IN_PROGRESS' });
  t.match(attemptOf(await makeVoid(id)), { status: /SUBMITTED|GRADED/ });
  t.strictSame(await reopen(id), { rejected: 'ATTEMPT_VOIDED' });
});

t.test('an attempt is not reopened beside another open one, whichever comes first', async (t) => {
  for (let n = 0; n < 12; n++) {
    const [examId, studentId] = [`exam-${newId()}`, `beside-${n}`];
    const { id } = await started(examId, studentId);
    await handIn(id);
    const [opened, begun] = await Promise.allSettled([reopen(id), started(examId, studentId)]);
    t.equal(await attempts(mongo).countDocuments({ examId, status: 'IN_PROGRESS' }), 1, 'one open attempt');
    t.equal(begun.status, 'fulfilled', 'the start gets an open attempt in any case');
    const reply = opened.status === 'fulfilled' ? opened.value : null;
    if (isRejection(reply)) t.match(reply, { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: String } });
    else t.match(reply, { status: 200 });
  }
});

t.test('a grading that is late for its round leaves the reopened attempt alone', async (t) => {
  const attempt = await storeAttempt(mongo, { ...SUBMITTED });
  const grading = await postGrading(mongo, attempt, { runAt: Date.now() + HOUR });
  t.match(attemptOf(await reopen(attempt._id)), { status: 'IN_PROGRESS' });
  await mailboxOf(mongo, 'grading').updateOne({ _id: grading._id }, { $set: { nextRunAt: new Date(0) } });
  await until(
    'the grading has ended',
    async () => (await mailboxOf(mongo, 'grading').findOne({ _id: grading._id }))?.status === 'DONE',
  );
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { status: 'IN_PROGRESS', round: 2, totalScore: null });
});

t.test('a trace of an attempt shows who gave time and who voided it, and why nothing is announced', async (t) => {
  const examId = `exam-${newId()}`;
  const { id } = await started(examId, 'traced-1');
  await give(examId);
  await makeVoid(id);
  await until('it is graded', async () => (await attempts(mongo).findOne({ _id: id }))?.status === 'GRADED');
  const read = async (by: 'id' | 'exam', value: string) => {
    const trace = await readTrace(mongo, { by, value }, { now: Date.now(), redis: 'up' });
    if (trace === null) throw new Error(`no trace of ${value}`);
    const acts = trace.lines.filter(({ kind }) => kind === 'act').map(({ state, what }) => `${state} ${what}`);
    return { ...trace, acts };
  };
  const ofAttempt = await read('id', id);
  t.strictSame(ofAttempt.acts.sort(), ['attempt.void teacher-1', 'exam.extra-time teacher-1']);
  t.match(
    ofAttempt.lines.find(({ kind }) => kind === 'attempt'),
    { reason: { code: 'VOIDED' } },
  );
  t.match((await read('exam', examId)).acts, ['exam.extra-time teacher-1']);
  const act = await mailboxOf(mongo, 'examroom').findOne({ subject: id });
  t.ok(
    (await read('id', act?._id ?? '')).lines.some((line) => line.id === id),
    'an act leads to its attempt',
  );
});
