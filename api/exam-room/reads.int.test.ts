import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import fc from 'fast-check';
import t from 'tap';
import { openStreams } from '#api/http/live-stream.ts';
import { attempts, whereKey } from '#infra/mongo/attempt/collections.ts';
import { exams } from '#infra/mongo/attempt/exams.ts';
import { openStartStore } from '#infra/mongo/attempt/start-store.ts';
import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
import { boardPage, boardSummary } from '#infra/mongo/exam-room/board.ts';
import { hasExam } from '#infra/mongo/exam-room/examined.ts';
import { operatorAudit, verifyAudit } from '#infra/mongo/operator-audit.ts';
import { createIndexes, MIGRATIONS } from '#infra/mongo/schema/migrate.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { isExaminer } from '#shared/attempt/visibility.ts';
import { addToSummary, BOARD_FLAGS, emptySummary, flagsOf } from '#shared/exam-room/board.ts';
import type { Board, ExamList, ListedExam, Statistics } from '#shared/generated/exam-room.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { captureLog } from '#testing/captured-log.ts';
import { callHttp } from '#testing/clients/call.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { callWith, coldFrontDoor } from '#testing/doors/in-process-door.ts';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { freshAttempt, graded, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';
import { csvReply } from './downloads.ts';
import type { LiveBoards } from './live-boards.ts';
import { openReadDeps } from './read-deps.ts';
import { examReadRoutes } from './read-routes.ts';
import { EXAM_ROOM } from './routes.ts';

const mongo = await openTestMongo(t);
const draining = new AbortController();
const deps = openReadDeps({ log: captureLog(), streams: openStreams(draining.signal) }, coldFrontDoor(mongo));
const { port } = await openTestDoor(t, { schemas: 'product', routes: examReadRoutes(deps, EXAM_ROOM) });
const url = `http://127.0.0.1:${port}`;
t.teardown(() => draining.abort());

interface Person {
  id: string;
  role: string;
}
const TEACHER: Examiner = { id: 'teacher-1', role: 'TEACHER' };
const OTHER: Examiner = { id: 'other', role: 'TEACHER' };
const ADMIN: Examiner = { id: 'admin-1', role: 'ADMIN' };
const OF_OTHER = { createdById: 'other', assignedClassroomIds: [], resultViewerTeacherIds: [] };
const headersOf = ({ id, role }: Person) => ({ 'x-user-id': id, 'x-user-role': role });
const ask = (target: string, by: Person = TEACHER) => callHttp(url, 'GET', target, { headers: headersOf(by) });

async function read<Data>(target: string, by: Person = TEACHER): Promise<Data> {
  const { status, data, text } = await ask(target, by);
  assert.equal(status, 200, text);
  return data;
}

const newExam = () => `exam-${newId()}`;
const before = (ms: number) => new Date(Date.now() - ms);

t.test('every read refuses students, strangers and an unknown exam, and names each fault of its query', async (t) => {
  const examId = newExam();
  await storeAttempt(mongo, { examId });
  const paths = ['board', 'board/stream', 'statistics', 'statistics.csv', 'statistics.svg', 'results.csv'];
  for (const path of paths) {
    const target = `/v1/exams/${examId}/${path}`;
    t.match(await ask(target, { id: 'student-1', role: 'STUDENT' }), { status: 403 }, path);
    t.match(await ask(target, { id: 'parent-1', role: 'PARENT' }), { status: 403 }, path);
    t.match(await ask(target, OTHER), { status: 404, code: 'EXAM_NOT_FOUND' }, path);
    t.match(await ask(`/v1/exams/none/${path}`, ADMIN), { status: 404, code: 'EXAM_NOT_FOUND' }, path);
  }
  t.match(await ask('/v1/exams', { id: 'student-1', role: 'STUDENT' }), { status: 403 });
  const bad: [query: string, ...paths: string[]][] = [
    ['/v1/exams?state=x&limit=0', '/state', '/limit'],
    ['/v1/exams?limit=101', '/limit'],
    ['/v1/exams?before=none', '/before'],
    [`/v1/exams/${examId}/board?status=OPEN&flag=LATE&limit=501`, '/status', '/flag', '/limit'],
    [`/v1/exams/${examId}/board?after=none`, '/after'],
    [`/v1/exams/${examId}/board?after=WzEsMl0`, '/after'],
    [`/v1/exams/${examId}/statistics?attempts=all`, '/attempts'],
    [`/v1/exams/${examId}/results.csv?attempts=x&separator=%7C&decimal=x`, '/attempts', '/separator', '/decimal'],
  ];
  for (const [target, ...faults] of bad) {
    const { status, code, json } = await ask(target);
    t.match({ status, code }, { status: 400, code: 'VALIDATION_FAILED' }, target);
    t.strictSame(json.details.map(({ path }: { path: string }) => path).sort(), faults.sort(), target);
  }
  t.equal(await operatorAudit(mongo).countDocuments({ action: 'exam.results-downloaded' }), 0, 'nothing is written');
});

const STATUSES = ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const;
const ages = fc.constantFrom(0, 10 * SECOND, 89 * SECOND, 95 * SECOND, HOUR);

t.test('each page and the counts of a board are those of its rows, for each filter and examiner', async () => {
  const now = new Date();
  const ago = (ms: number) => new Date(now.getTime() - ms);
  const drawn = fc.record({
    student: fc.constantFrom('a', 'b', 'A', 'ă'),
    status: fc.constantFrom(...STATUSES),
    seen: fc.option(ages),
    late: fc.option(fc.constantFrom(-MINUTE, 0, MINUTE)),
    away: fc.option(fc.record({ count: fc.nat(4), isHidden: fc.boolean() })),
    isVoided: fc.boolean(),
    isOther: fc.boolean(),
    age: ages,
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(drawn, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 4 }),
      async (all, limit) => {
        const examId = newExam();
        // A student has one open attempt at an exam.
        const open = new Set<string>();
        const stored = all.map((one, index) => {
          const status = one.status === 'IN_PROGRESS' && open.has(one.student) ? 'GRADED' : one.status;
          if (status === 'IN_PROGRESS') open.add(one.student);
          return freshAttempt({
            ...(status === 'IN_PROGRESS' ? {} : SUBMITTED),
            examId,
            status,
            studentId: one.student,
            attemptNumber: index + 1,
            startedAt: ago(one.age),
            deadlineAt: one.late === null ? null : ago(one.late),
            ...(one.seen === null ? {} : { lastSeenAt: ago(one.seen) }),
            ...(one.away === null
              ? {}
              : { away: { count: one.away.count, seconds: 1, since: one.away.isHidden ? ago(SECOND) : null } }),
            ...(one.isVoided ? { voidedAt: now } : {}),
            ...(one.isOther ? { scope: OF_OTHER } : {}),
          });
        });
        await attempts(mongo).insertMany(stored);
        const inOrder = stored.sort((one, other) => {
          const byStudent = Buffer.compare(Buffer.from(one.studentId), Buffer.from(other.studentId));
          return byStudent || one.attemptNumber - other.attemptNumber;
        });

        for (const by of [TEACHER, OTHER, ADMIN]) {
          const seen = inOrder.filter((attempt) => isExaminer(attempt, by));
          const summary = emptySummary();
          for (const one of seen) addToSummary(summary, one, flagsOf(one, now));
          assert.deepEqual({ ...(await boardSummary(mongo, examId, by, now)) }, summary);
          for (const status of [null, 'IN_PROGRESS', 'GRADED'] as const) {
            for (const flag of [null, ...BOARD_FLAGS]) {
              const wanted = seen.filter(
                (one) =>
                  (status === null || one.status === status) && (flag === null || flagsOf(one, now).includes(flag)),
              );
              const found: string[] = [];
              let after: Attempt | null = null;
              for (let isOver = false; !isOver; ) {
                const page = await boardPage(mongo, { examId, by, status, flag, after, limit, now });
                found.push(...page.slice(0, limit).map(({ _id }) => _id));
                after = stored.find(({ _id }) => _id === found.at(-1)) ?? null;
                isOver = page.length <= limit;
              }
              assert.deepEqual(
                found,
                wanted.map(({ _id }) => _id),
                `${by.id} ${status} ${flag}`,
              );
            }
          }
        }
      },
    ),
    { numRuns: 8 },
  );
});

t.test('a board is read page by page, and its rows show no answer and no score', async (t) => {
  const examId = newExam();
  for (const studentId of ['c', 'a', 'b']) await storeAttempt(mongo, { ...graded(), examId, studentId });
  const first = await read<Board>(`/v1/exams/${examId}/board?limit=2`);
  t.match(first, { summary: { started: 3, graded: 3, open: 0 }, rows: [{ studentId: 'a' }, { studentId: 'b' }] });
  const second = await read<Board>(`/v1/exams/${examId}/board?limit=2&after=${first.next}`);
  t.match(second, { rows: [{ studentId: 'c' }], next: null });
  t.strictSame(
    Object.keys(first.rows[0] ?? {}).filter((name) => /score|answers|correct|key/i.test(name)),
    [],
  );
  t.match(await read<Board>(`/v1/exams/${examId}/board?status=IN_PROGRESS&flag=AWAY`), { rows: [], next: null });
});

t.test('a list has the exams of an examiner with their counts, the newest first', async (t) => {
  const own = await openTestMongo(t, { empty: true });
  await createIndexes(own);
  const ownDeps = openReadDeps({ log: captureLog(), streams: openStreams(draining.signal) }, coldFrontDoor(own));
  const door = await openTestDoor(t, { schemas: 'product', routes: examReadRoutes(ownDeps, EXAM_ROOM) });
  const list = async (query: string, by: Person = TEACHER): Promise<ExamList> => {
    const headers = headersOf(by);
    const { data } = await callHttp(`http://127.0.0.1:${door.port}`, 'GET', `/v1/exams${query}`, { headers });
    return data;
  };
  const { noteExam } = openStartStore(own, 5_000);
  const store = async (attempt: Partial<Attempt>) => noteExam(await storeAttempt(own, attempt));
  const hour = (hours: number) => ({ startedAt: before(hours * HOUR), deadlineAt: before((hours - 1) * HOUR) });
  const old = { examId: 'old', ...hour(9) };
  await store({ ...graded(), ...old });
  await store({ ...graded(), ...old, pendingManualCount: 0, deadlineAt: before(7 * HOUR) });
  await store({ ...SUBMITTED, ...old });
  await store({ ...graded(), ...old, voidedAt: before(HOUR), deadlineAt: before(-HOUR) });
  await store({ examId: 'open', ...hour(3) });
  await store({ ...graded(), examId: 'ahead', ...hour(2), deadlineAt: before(-HOUR) });
  await store({ ...graded(), examId: 'mixed', ...hour(1.5), deadlineAt: before(HOUR) });
  await store({ ...graded(), examId: 'mixed', ...hour(1.5), scope: OF_OTHER });
  await store({ examId: 'of-other', scope: OF_OTHER, startedAt: before(HOUR), deadlineAt: null });

  const ids = ({ items }: ExamList) => items.map(({ examId }) => examId);
  t.strictSame(ids(await list('')), ['mixed', 'ahead', 'open', 'old']);
  t.strictSame(ids(await list('', ADMIN)), ['of-other', 'mixed', 'ahead', 'open', 'old']);
  t.strictSame(ids(await list('', OTHER)), ['of-other', 'mixed']);
  t.strictSame(ids(await list('', { id: 'stranger', role: 'TEACHER' })), []);
  t.strictSame(ids(await list('?state=running')), ['ahead', 'open'], 'an open attempt, or a deadline ahead');
  t.strictSame(ids(await list('?state=ended')), ['mixed', 'old']);
  t.strictSame(ids(await list('?state=running', OTHER)), ['of-other'], 'an open attempt without a deadline');

  const first = await list('?limit=3');
  t.strictSame([ids(first), first.next], [['mixed', 'ahead', 'open'], 'open']);
  const second = await list(`?limit=3&before=${first.next}`);
  t.strictSame([ids(second), second.next], [['old'], null]);
  const found = second.items[0] as ListedExam;
  t.match(found, { open: 0, submitted: 1, graded: 2, pendingManual: 1, voided: 1, title: 'Toán 12' });
  t.equal(found.firstStartedAt, old.startedAt.toISOString());
  const latest = await attempts(own).findOne({ examId: 'old', pendingManualCount: 0 });
  t.equal(found.lastDeadlineAt, latest?.deadlineAt?.toISOString(), 'the deadline of a voided attempt does not count');
  t.match((await list('', ADMIN)).items[1], { examId: 'mixed', graded: 2 });
  t.match((await list('')).items[0], { examId: 'mixed', graded: 1 }, 'a teacher counts the own attempts');

  await exams(own).deleteMany({});
  t.strictSame(ids(await list('', ADMIN)), []);
  for (const repeat of [1, 2]) {
    await MIGRATIONS.find(({ version }) => version === 10)?.up?.(own);
    t.strictSame(ids(await list('', ADMIN)), ['of-other', 'mixed', 'ahead', 'open', 'old'], `migrated, ${repeat}`);
  }
});

t.test('a process that has stored the row of an exam sends no command at the next start', async (t) => {
  let sent = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (collection !== 'attempt_exams') return undefined;
    return (...args) => {
      if (name === 'updateOne') sent += 1;
      return method(...args);
    };
  });
  const { noteExam } = openStartStore({ ...mongo, db }, 5_000);
  const examId = newExam();
  const sample = sampleAttempt({ examId, deadlineAt: new Date('2026-05-04T03:40:00.000Z') });
  await Promise.all(Array.from({ length: 20 }, () => noteExam(sample)));
  t.equal(sent, 1, 'of a class that begins at once, one student stores it');
  const later = new Date((sample.deadlineAt?.getTime() ?? 0) + MINUTE);
  await noteExam({ ...sample, deadlineAt: later });
  t.equal(sent, 1, 'and a deadline within the hour stores nothing');
  await noteExam({ ...sample, scope: OF_OTHER });
  t.equal(sent, 2);
  t.match(await exams(mongo).findOne({ _id: examId }), { examinerIds: ['teacher-1', 'teacher-2', 'other'] });
});

t.test(
  'a teacher whom the row of an exam does not name costs one read, and an exam without a row is found',
  async (t) => {
    const read: string[] = [];
    const db = tappedDb(mongo, (method, name, collection) => {
      return (...args) => {
        if (name === 'findOne') read.push(collection);
        return method(...args);
      };
    });
    const isFound = async (examId: string, by: Examiner) => {
      read.length = 0;
      return [await hasExam({ ...mongo, db }, examId, by), ...read];
    };
    const { noteExam } = openStartStore(mongo, 5_000);
    const examId = newExam();
    const voided = await storeAttempt(mongo, { ...graded(), examId, voidedAt: new Date() });
    await noteExam(voided);
    t.strictSame(await isFound(examId, OTHER), [false, 'attempt_exams']);
    t.strictSame(
      await isFound(examId, TEACHER),
      [true, 'attempt_exams', 'attempts'],
      'a voided attempt is one of the exam',
    );
    t.strictSame(await isFound(examId, ADMIN), [true, 'attempts']);
    t.strictSame(await isFound(newExam(), ADMIN), [false, 'attempts']);

    const unborn = newExam();
    await noteExam({ ...voided, examId: unborn });
    t.strictSame(
      await isFound(unborn, TEACHER),
      [false, 'attempt_exams', 'attempts'],
      'its start was refused after the row',
    );

    const old = newExam();
    await storeAttempt(mongo, { examId: old, scope: OF_OTHER });
    t.strictSame(
      await isFound(old, OTHER),
      [true, 'attempt_exams', 'attempts'],
      'a front door before rows has started it',
    );
    t.strictSame(await isFound(old, TEACHER), [false, 'attempt_exams', 'attempts']);
  },
);

t.test('a grade completes the row of an exam, and leaves its newer title', async (t) => {
  const examId = newExam();
  const [first, other] = [
    await storeAttempt(mongo, { ...SUBMITTED, examId, startedAt: before(2 * HOUR) }),
    await storeAttempt(mongo, { ...SUBMITTED, examId, scope: OF_OTHER }),
  ];
  const grade = async (attempt: Attempt) => {
    await runCommand(testKernel(mongo), makeActor('grading', testWorkerDeps(mongo)), await postGrading(mongo, attempt));
  };
  await grade(first);
  t.match(await exams(mongo).findOne({ _id: examId }), { title: 'Toán 12', examinerIds: ['teacher-1', 'teacher-2'] });
  const { noteExam } = openStartStore(mongo, 5_000);
  await noteExam({ ...first, startedAt: new Date(), exam: { ...first.exam, title: 'Toán 12 (mới)' } });
  await grade(other);
  t.match(await exams(mongo).findOne({ _id: examId }), {
    title: 'Toán 12 (mới)',
    firstStartedAt: first.startedAt,
    examinerIds: ['teacher-1', 'teacher-2', 'other'],
  });
});

t.test(
  'a stream shows its examiner each change, and streams of an exam share one reader until the last one leaves',
  async (t) => {
    const examId = newExam();
    const mine = await storeAttempt(mongo, { examId, startedAt: new Date(), deadlineAt: before(-HOUR) });
    const foreign = await storeAttempt(mongo, { examId, scope: OF_OTHER, startedAt: new Date(), deadlineAt: null });
    const target = `${url}/v1/exams/${examId}/board/stream`;
    const open = (by: Person) => openStream(t, target, headersOf(by));
    const [stream, second, admin] = [await open(TEACHER), await open(TEACHER), await open(ADMIN)];
    t.match((await stream.next('snapshot')).data, { summary: { started: 1, open: 1, submitted: 0 } });
    t.match((await admin.next('snapshot')).data, { summary: { started: 2, open: 2 } });
    await second.next('snapshot');
    t.equal(deps.boards.watched(), 1);

    const away = { count: 1, seconds: 0, since: new Date() };
    await attempts(mongo).updateOne(whereKey(mine), { $set: { away, stamp: 'away', lastSeenAt: new Date() } });
    t.match((await stream.next('rows')).data, { rows: [{ attemptId: mine._id, flags: ['AWAY'] }] });
    t.match((await stream.next('summary')).data, { summary: { away: 1 } });
    const wanted = { source: 'STUDENT', overdueByMs: null, maxAttempts: 3, now: Date.now(), budgetMs: 60_000 } as const;
    await markSubmitted(mongo, { ...wanted, attempt: foreign });
    await until('the admin sees the other attempt', () =>
      admin.events.some(({ event, data }) => event === 'rows' && JSON.stringify(data).includes(foreign._id)),
    );
    await attempts(mongo).updateOne(whereKey(mine), {
      $set: { voidedAt: new Date(), stamp: 'voided', boardAt: new Date() },
    });
    t.match((await stream.next('rows')).data, { rows: [{ attemptId: mine._id, voidedAt: String }] });
    t.notMatch(stream.text(), foreign._id, 'a teacher sees the own attempts alone');
    t.equal(stream.events[0]?.event, 'snapshot');

    for (const one of [stream, second]) one.close();
    await admin.next('rows');
    t.equal(deps.boards.watched(), 1);
    admin.close();
    await until('no exam is read any longer', () => deps.boards.watched() === 0);
  },
);

t.test('a stream begins with the counts, although its first reading has rows as well', async (t) => {
  const { _id: id, scope, examId } = await storeAttempt(mongo, { examId: newExam() });
  const summaries = [{ scope: { scope }, summary: { ...emptySummary(), started: 1 } }];
  // Others watch the board, and a row has changed between the request and its first event.
  const watch: LiveBoards['watch'] = (_, read) => {
    read({ rows: [{ id, scope: { scope }, text: JSON.stringify({ attemptId: id }) }], summaries });
    return () => undefined;
  };
  const routes = examReadRoutes({ ...deps, boards: { watch, watched: () => 1 } }, EXAM_ROOM);
  const door = await openTestDoor(t, { schemas: 'product', routes });
  const target = `http://127.0.0.1:${door.port}/v1/exams/${examId}/board/stream`;
  const stream = await openStream(t, target, headersOf(TEACHER));
  t.match((await stream.next('rows')).data, { rows: [{ attemptId: id }] });
  t.strictSame(
    stream.events.map(({ event }) => event),
    ['snapshot', 'rows'],
  );
  stream.close();
});

t.test('a row turns silent on a stream without any write', async (t) => {
  const examId = newExam();
  const attempt = await storeAttempt(mongo, { examId, startedAt: before(88 * SECOND), deadlineAt: before(-HOUR) });
  const stream = await openStream(t, `${url}/v1/exams/${examId}/board/stream`, headersOf(TEACHER));
  t.match((await stream.next('snapshot')).data, { summary: { silent: 0 } });
  t.match((await stream.next('rows')).data, { rows: [{ attemptId: attempt._id, flags: ['SILENT'] }] });
  t.match((await stream.next('summary')).data, { summary: { silent: 1 } });
  stream.close();
});

t.test('a watched board reads all attempts once, and then those that were written', async (t) => {
  const examId = newExam();
  await storeAttempt(mongo, { examId });
  const asked: string[][] = [];
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'find' || collection !== 'attempts') return undefined;
    return (...args) => {
      asked.push(Object.keys(args[0] as object));
      return method(...args);
    };
  });
  const { boards } = openReadDeps({ log: captureLog(), streams: deps.streams }, { ...deps, mongo: { ...mongo, db } });
  const stop = boards.watch(examId, () => undefined);
  await until('the board is read three times', () => asked.length > 2);
  stop();
  t.strictSame(asked.slice(0, 3), [['examId'], ['examId', '$or'], ['examId', '$or']]);
});

t.test('a board that cannot be read for a moment goes on', async (t) => {
  const examId = newExam();
  const attempt = await storeAttempt(mongo, { examId });
  let isBroken = false;
  let failed = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'find' || collection !== 'attempts') return undefined;
    return (...args) => {
      if (!isBroken) return method(...args);
      failed += 1;
      throw new Error('a test');
    };
  });
  const { boards } = openReadDeps({ log: captureLog(), streams: deps.streams }, { ...deps, mongo: { ...mongo, db } });
  let readings = 0;
  const rows: string[] = [];
  const stop = boards.watch(examId, (reading) => {
    readings += 1;
    rows.push(...reading.rows.map(({ id }) => id));
  });
  await until('the board is read', () => readings > 0);
  isBroken = true;
  await attempts(mongo).updateOne(whereKey(attempt), { $set: { stamp: 'changed', lastSeenAt: new Date() } });
  const seen = readings;
  await until('a reading has failed', () => failed > 0);
  t.equal(readings, seen);
  isBroken = false;
  await until('the change is seen', () => rows.includes(attempt._id));
  stop();
  t.equal(boards.watched(), 0);
});

const GRADED = { ...SUBMITTED, status: 'GRADED', correctCount: 1, wrongCount: 1, pendingManualCount: 0 } as const;
const CHOICES = samplePaper({ questionId: 'first' }, { questionId: 'second', score: 3 });

/** Stores a graded attempt at the two choices, with the points of each; null is no answer. */
async function storeScores(examId: string, scores: (number | null)[], change: Partial<Attempt> = {}): Promise<Attempt> {
  const answers = scores.flatMap((score, index) => {
    const selected = [score === 0 ? 'b' : 'a'];
    return score === null ? [] : [[`q${index}`, sampleAnswer({ selected, score, isCorrect: score > 0 })] as const];
  });
  const totalScore = scores.reduce<number>((sum, score) => sum + (score ?? 0), 0);
  return storeAttempt(
    mongo,
    { ...GRADED, examId, totalScore, answers: Object.fromEntries(answers), ...change },
    CHOICES,
  );
}

t.test('statistics count the first, the last or the best graded attempt of each student', async (t) => {
  const examId = newExam();
  const three = { studentId: 'three' };
  await storeScores(examId, [1, 0], { ...three, attemptNumber: 1 });
  await storeScores(examId, [1, 3], { ...three, attemptNumber: 2 });
  await storeScores(examId, [0, null], { ...three, attemptNumber: 3 });
  await storeScores(examId, [1, 3], { studentId: 'voided', voidedAt: new Date() });
  await storeAttempt(mongo, { examId, studentId: 'open' }, CHOICES);
  await storeScores(examId, [0, 3], { studentId: 'one', scope: OF_OTHER });
  const of = (attempts: string, by: Person = TEACHER) =>
    read<Statistics>(`/v1/exams/${examId}/statistics?attempts=${attempts}`, by);

  t.match(await of('first'), { attempts: 1, mean: 1, standardDeviation: null });
  t.match(await of('last'), {
    attempts: 1,
    mean: 0,
    questions: [
      { answered: 1, blank: 0 },
      { answered: 0, blank: 1 },
    ],
  });
  t.match(await of('best', ADMIN), { attempts: 2, mean: 3.5, median: 3.5, alpha: null });
  t.match(await of('first', ADMIN), {
    mean: 2,
    histogram: { length: 10 },
    questions: [
      {
        questionId: 'first',
        orderIndex: 0,
        facility: 0.5,
        options: [{ id: 'a', count: 1 }, { id: 'b', count: 1 }, { id: 'c' }],
      },
      { questionId: 'second', orderIndex: 1, maxScore: 3, facility: 0.5, flags: ['UNUSED_DISTRACTOR'] },
    ],
  });
  await attempts(mongo).updateOne({ examId, studentId: 'one' }, { $set: { voidedAt: new Date() } });
  t.match(await of('first', ADMIN), { attempts: 1, mean: 1 }, 'a void of this moment counts');
});

t.test('a pending essay counts where it is graded, and a long text is an answer', async (t) => {
  const examId = newExam();
  await storeAttempt(mongo, { ...graded(), examId });
  const essay = sampleAnswer({ textRef: true, score: 2, isCorrect: true });
  const answers = { q0: sampleAnswer({ selected: [], score: 0, isCorrect: false }), q1: essay };
  await storeAttempt(mongo, { ...GRADED, examId, totalScore: 2, answers });
  t.match(await read(`/v1/exams/${examId}/statistics`), {
    attempts: 2,
    mean: 1.5,
    questions: [
      { questionId: 'choice', answered: 1, blank: 1, facility: 0.5 },
      { questionId: 'essay', answered: 1, blank: 0, facility: 1, options: [], flags: ['TOO_EASY'] },
    ],
  });
});

async function download(target: string, by: Person = TEACHER) {
  const { status, headers, text } = await ask(target, by);
  assert.equal(status, 200, text);
  return { type: headers['content-type'], name: headers['content-disposition'], text };
}

t.test('statistics are files for a spreadsheet and a slide', async (t) => {
  const examId = newExam();
  await storeScores(examId, [1, 1.5]);
  const csv = await download(`/v1/exams/${examId}/statistics.csv?separator=%3B&decimal=,`);
  t.equal(csv.type, 'text/csv; charset=utf-8');
  t.match(csv.name, `attachment; filename="statistics-${examId}.csv"`);
  const lines = csv.text.split('\r\n');
  t.match(lines[0], /^\uFEFForderIndex;questionId;/);
  t.match(lines[2], /^1;second;SINGLE_CHOICE;3;1;0;0,5;/);
  t.equal(lines.length, 4);
  const svg = await download(`/v1/exams/${examId}/statistics.svg`);
  t.equal(svg.type, 'image/svg+xml; charset=utf-8');
  t.match(svg.text, /^<svg [\s\S]*>1 bài · trung bình 2,5 · trung vị 2,5</);
});

t.test('results are a file with a line for each attempt, and each download is a row of the audit', async (t) => {
  const examId = newExam();
  const of = (query = '', by: Person = TEACHER) => download(`/v1/exams/${examId}/results.csv${query}`, by);
  await storeScores(examId, [1, 0], { studentId: 'b', attemptNumber: 1, studentInfo: '{"name":"=An"}' });
  await storeScores(examId, [1, 3], { studentId: 'b', attemptNumber: 2, studentInfo: '{"class":"12A"}' });
  await storeScores(examId, [0, 0], { studentId: 'b', attemptNumber: 3, voidedAt: new Date() });
  await storeAttempt(mongo, { examId, studentId: 'a', startedAt: new Date(0) });
  await storeScores(examId, [0, 0], { studentId: 'c', scope: OF_OTHER });
  await storeScores(examId, [0, 0], { studentId: 'd', startedAt: before(-HOUR) });

  const { text, type, name } = await of();
  t.equal(type, 'text/csv; charset=utf-8');
  t.equal(name, `attachment; filename="results-${examId}.csv"`);
  const [header = '', ...lines] = text.split('\r\n');
  t.match(header, /^\uFEFFstudentId,studentInfo\.class,studentInfo\.name,attemptNumber,status,startedAt,/);
  t.match(header, /,0:choice:score,0:choice:answer,0:first:score,0:first:answer,1:essay:score,/);
  t.strictSame(
    lines.map((line) => line.split(',').slice(0, 5)),
    [
      ['a', '', '', '1', 'IN_PROGRESS'],
      ['b', '', "'=An", '1', 'GRADED'],
      ['b', '12A', '', '2', 'GRADED'],
      ['b', '', '', '3', 'GRADED'],
      [''],
    ],
    'by student and number, without an attempt that begins after the request',
  );
  t.match(lines[0], /,,a,,,,Sông Hương,,$/, 'an answer of an open attempt has no score yet');
  t.match(lines[2], /,GRADED,[^,]*,[^,]*,STUDENT,1800,4,4,100,1,1,0,0,false,,,1,a,,,3,a$/);

  const numbers = async (query: string) =>
    (await of(query)).text
      .split('\r\n')
      .slice(1, -1)
      .map((line) => line.split(query.includes('%3B') ? ';' : ',').slice(0, 4));
  t.strictSame(await numbers('?attempts=first'), [
    ['a', '', '', '1'],
    ['b', '', "'=An", '1'],
  ]);
  t.strictSame(
    await numbers('?attempts=last&separator=%3B'),
    [
      ['a', '', '', '1'],
      ['b', '12A', '', '2'],
    ],
    'no voided one',
  );
  t.strictSame(await numbers('?attempts=best'), [
    ['a', '', '', '1'],
    ['b', '12A', '', '2'],
  ]);
  t.match((await of('', ADMIN)).text, /\r\nc,/);

  const rows = await operatorAudit(mongo).find({ subject: examId }).toArray();
  t.equal(rows.length, 5, 'one for each download');
  t.match(rows[0], {
    action: 'exam.results-downloaded',
    operator: 'teacher-1',
    detail: { attempts: 'all', role: 'TEACHER' },
  });
  t.equal((await verifyAudit(mongo, null)).fault, null);
});

t.test('the file has long texts whole', async (t) => {
  const examId = newExam();
  const text = 'dòng 1\r\n"dòng 2"'.repeat(500);
  const attempt = await storeAttempt(mongo, {
    examId,
    answers: { q1: sampleAnswer({ textRef: true, serverVersion: 3 }) },
  });
  const row = { _id: `${attempt._id}:q1:3`, attemptId: attempt._id, answerKey: 'q1', text };
  await mongo.db.collection<typeof row>('attempt_texts').insertOne(row);
  t.ok((await download(`/v1/exams/${examId}/results.csv`)).text.includes(`"${text.replaceAll('"', '""')}"`));
});

t.test('a file is made no faster than its reader takes it, and ends with its reader', async (t) => {
  const LINES = 1_000;
  let made = 0;
  const lines = async function* () {
    for (; made < LINES; made += 1) yield 'x'.repeat(1_024);
  };
  /** Opens a reply to a client that takes one write whenever `take` is called. */
  const openReply = () => {
    let taken = (): void => undefined;
    const writes: number[] = [];
    const response = new Writable({
      highWaterMark: 1,
      write(chunk: Buffer, _encoding, done) {
        writes.push(chunk.length);
        taken = done;
      },
    });
    const reply = Object.assign(response, { writeHead: () => reply }) as unknown as ServerResponse;
    const take = () => {
      const done = taken;
      taken = () => undefined;
      done();
    };
    return { reply, writes, take };
  };

  const slow = openReply();
  const whole = csvReply(callWith({}), 'x', lines).raw(slow.reply);
  await until('the first part waits for the client', () => slow.writes.length === 1);
  t.ok(made < 100, `${made} lines for a client that has read nothing`);
  const reading = setInterval(slow.take, 1);
  await whole;
  await until('the last part is taken', () => slow.reply.writableFinished);
  clearInterval(reading);
  t.equal(
    slow.writes.reduce((sum, bytes) => sum + bytes, 0),
    LINES * 1_024 + 3,
  );

  made = 0;
  const leaving = new AbortController();
  const gone = openReply();
  const cut = csvReply(callWith({}, { signal: leaving.signal }), 'x', lines).raw(gone.reply);
  await until('the first part waits for the client', () => gone.writes.length === 1);
  leaving.abort();
  await t.rejects(cut, { name: 'AbortError' });
  t.ok(made < 100, 'no further line is made for a client that has left');
});
