import t, { type Test } from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { type AuditRow, operatorAudit } from '#infra/mongo/operator-audit.ts';
import type { ExamAttemptList } from '#shared/generated/operations.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { ask, openTestDoor } from '#testing/doors/test-door.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { freshAttempt, graded, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { examRoutes } from './exams.ts';

const mongo = await openTestMongo(t);
const OPS = 'Authorization: Bearer ops-token-of-this-test';
const ADMIN = ['X-User-Id: admin-1', 'X-User-Role: ADMIN'];
const env = { REDIS_URL: requiredEnv('REDIS_URL') };

async function open(t: Test) {
  const lines: object[] = [];
  const log = { info: (fields: object) => void lines.push(fields) };
  const pingRedis = async () => undefined;
  const routes = examRoutes({ mongo, now: Date.now, log, opsToken: ['ops-token-of-this-test'], pingRedis });
  const { port } = await openTestDoor(t, { routes, schemas: 'product' });
  const read = (path: string, ...headers: string[]) =>
    ask(t, port, 'GET', `/v1/ops/exams/${path}`, headers.length === 0 ? [OPS] : headers);
  return { read, lines };
}

t.test('only the holder of OPS_TOKEN and an ADMIN read an exam', async (t) => {
  const { read } = await open(t);
  const { examId } = await storeAttempt(mongo, { examId: 'exam-guarded' });
  for (const path of [examId, `${examId}/attempts`]) {
    t.equal((await read(path)).status, 200);
    t.equal((await read(path, ...ADMIN)).status, 200);
    for (const role of ['STUDENT', 'TEACHER', 'PARENT']) {
      t.match(await read(path, 'X-User-Id: someone', `X-User-Role: ${role}`), { status: 403 }, role);
    }
    t.match(await read(path, 'Authorization: Bearer wrong'), { status: 401, json: { code: 'UNAUTHENTICATED' } });
  }
  for (const path of ['unknown', 'unknown/attempts'])
    t.match(await read(path), { status: 404, json: { code: 'EXAM_NOT_FOUND' } });
});

t.test('pages meet each attempt once, and a cursor serves its own walk alone', async (t) => {
  const { read } = await open(t);
  const examId = 'exam-of-pages';
  const stored = Array.from({ length: 7 }, (_, n) => freshAttempt({ examId, ...(n % 2 === 0 ? SUBMITTED : {}) }));
  await attempts(mongo).insertMany(stored);
  const met: string[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? '' : `&cursor=${cursor}`;
    const { data }: { data: ExamAttemptList } = (await read(`${examId}/attempts?limit=3${query}`)).json;
    met.push(...data.attempts.map(({ id }) => id));
    cursor = data.nextCursor;
  } while (cursor !== null);
  t.strictSame(met, stored.map(({ _id }) => _id).sort());

  const { nextCursor } = (await read(`${examId}/attempts?limit=1`)).json.data;
  await storeAttempt(mongo, { examId: 'exam-of-others' });
  const others = [
    `${examId}/attempts?status=SUBMITTED`,
    `${examId}/attempts?student=${stored[0]?.studentId}`,
    'exam-of-others/attempts?limit=1',
  ];
  for (const path of others) {
    const details = [{ path: '/cursor' }];
    const refused = { status: 400, json: { code: 'VALIDATION_FAILED', details } };
    t.match(await read(`${path}&cursor=${nextCursor}`), refused, path);
  }
  for (const query of ['limit=0', 'limit=201', 'limit=x', 'status=OPEN', 'cursor=x', 'status[$ne]=GRADED']) {
    t.match(await read(`${examId}/attempts?${query}`), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  }
});

t.test('a walk over an exam is a row of the audit for each operator and hour, and each page a log line', async (t) => {
  const { read, lines } = await open(t);
  const examId = 'exam-of-audit';
  const { studentId } = await storeAttempt(mongo, { examId });
  await storeAttempt(mongo, { examId });
  const rows = (action: AuditRow['action'], subject: string) =>
    operatorAudit(mongo).find({ action, subject }).toArray();
  const walk = (...headers: string[]) => read(`${examId}/attempts?limit=1`, ...headers);

  const replies = await Promise.all(Array.from({ length: 10 }, () => walk(...ADMIN)));
  t.ok(replies.every(({ status }) => status === 200));
  const { nextCursor } = replies[0]?.json.data ?? {};
  t.equal((await read(`${examId}/attempts?limit=1&cursor=${nextCursor}`, ...ADMIN)).status, 200);
  t.equal(lines.filter((line) => 'examId' in line).length, 11);
  const audited = await rows('exam.attempts', examId);
  t.match(audited, [{ operator: 'ADMIN admin-1', detail: { attempts: 1 } }]);
  t.equal(audited.length, 1, 'ten reads at once are one row');

  await walk();
  t.equal((await rows('exam.attempts', examId)).length, 2, 'another operator has a row of its own');
  await operatorAudit(mongo).updateMany({ subject: examId }, { $set: { at: new Date(Date.now() - HOUR - 1) } });
  await walk(...ADMIN);
  t.equal((await rows('exam.attempts', examId)).length, 3, 'an hour later');

  for (let n = 0; n < 3; n++) await read(`${examId}/attempts?student=${studentId}`, ...ADMIN);
  const ofStudent = await rows('account.attempts', await tombstoneId(mongo, studentId));
  t.equal(ofStudent.length, 1);
  t.notMatch(JSON.stringify([ofStudent, lines]), studentId);
});

t.test('examhall exam prints what the routes answer', async (t) => {
  const { read } = await open(t);
  const examId = 'exam-of-tool';
  const deadlineAt = new Date(Date.now() - 60_000);
  await storeAttempt(mongo, { examId, deadlineAt });
  const submitted = await storeAttempt(mongo, { examId, deadlineAt: null, ...SUBMITTED });
  const { studentId } = submitted;
  await postGrading(mongo, submitted);
  await storeAttempt(mongo, { examId, deadlineAt: null, ...graded() });
  const call = (...words: string[]) => callExamhall(mongo, ['exam', ...words], { env });

  const filters = { '': [], '?status=GRADED': ['--status', 'GRADED'], '?limit=2': ['--limit', '2'] };
  for (const [query, options] of Object.entries(filters)) {
    const { code, out } = await call(examId, '--json', ...options);
    t.equal(code, 0);
    const { exam, ...list } = JSON.parse(out);
    if (query === '') t.match(out, '"NO_WORKER"', 'a reason is compared');
    t.strictSame(timeless(list), timeless((await read(`${examId}/attempts${query}`)).json.data), query);
    t.strictSame(timeless(exam), timeless((await read(examId)).json.data));
  }

  const { out } = await call(examId, '--limit', '2');
  t.match(out, /^exam exam-of-tool "Toán 12": 3 attempts\n {2}1 in progress, 1 submitted, 1 graded$/m);
  t.match(out, /^ {2}late: 1 in progress, 0 submitted$/m);
  t.match(out, /^ {2}essays: 1 answer of 1 attempt waits for a grade$/m);
  t.match(out, /late by +.*grading/);
  t.match(out, /WAITING: no live `grading` worker/);
  const next = /^more follow: pass --cursor (\S+)$/m.exec(out)?.[1] ?? '';
  const last = await call(examId, '--limit', '2', '--cursor', next, '--json');
  t.match(JSON.parse(last.out), { attempts: [{ status: 'GRADED' }], nextCursor: null });
  t.match(await call(examId, '--status', 'GRADED', '--cursor', next), { code: 2, out: '', err: /--cursor must be/ });
  t.notMatch((await call(examId, '--status', 'SUBMITTED')).out, /^more follow/m);
  for (const options of [[], ['--student', studentId]])
    t.match((await call(examId, ...options, '--operator', 'binh')).out, studentId);
  const audited = await operatorAudit(mongo).find({ operator: 'binh' }).sort({ _id: 1 }).toArray();
  t.match(audited, [{ action: 'exam.attempts', subject: examId }, { action: 'account.attempts' }]);

  t.match(await call('unknown'), { code: 1, out: '', err: 'error: nothing of the exam unknown is stored\n' });
  for (const words of [[], [examId, 'b'], [examId, '--status', 'OPEN'], [examId, '--limit', '0']])
    t.match(await call(...words), { code: 2, out: '' }, words.join());
});

/** Returns the value without times and ages, which differ between two reads. The text of a reason keeps its words. */
function timeless(value: object): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, member) => {
      if (key === 'text' && typeof member === 'string') return member.replaceAll(/\d+/g, 'N');
      return /^(at|lateSeconds)$/.test(key) ? null : member;
    }),
  );
}
