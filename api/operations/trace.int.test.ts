import t, { type Test } from 'tap';
import { behindGateway, gatewayToken } from '#api/http/guards/tokens.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { type AuditRow, operatorAudit } from '#infra/mongo/operator-audit.ts';
import type { ExamAttemptList } from '#shared/generated/operations.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { ask, openTestDoor, type TestDoorOptions } from '#testing/doors/test-door.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { freshAttempt, graded, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { examRoutes } from './exams.ts';
import { type TraceDeps, traceRoutes } from './trace.ts';

const mongo = await openTestMongo(t);
const SECRET = 'ops-token-of-this-test';
const OPS = `Authorization: Bearer ${SECRET}`;
const ADMIN = ['X-User-Id: admin-1', 'X-User-Role: ADMIN'];
const env = { REDIS_URL: requiredEnv('REDIS_URL') };

/** Returns the data with other digits in its texts, which state ages. */
function withoutAges(value: object): unknown {
  return JSON.parse(JSON.stringify(value), (key, member) => (key === 'text' ? member.replaceAll(/\d+/g, 'N') : member));
}

/** Returns the data without times and ages, which differ between two reads. */
function withoutTimes(value: object): unknown {
  return JSON.parse(JSON.stringify(withoutAges(value)), (key, member) =>
    /^(at|lateSeconds)$/.test(key) ? null : member,
  );
}

async function openExams(t: Test) {
  const lines: object[] = [];
  const log = { info: (fields: object) => void lines.push(fields) };
  const pingRedis = async () => undefined;
  const routes = examRoutes({ mongo, now: Date.now, log, opsToken: [SECRET], pingRedis });
  const { port } = await openTestDoor(t, { routes, schemas: 'product' });
  const read = (path: string, ...headers: string[]) =>
    ask(t, port, 'GET', `/v1/ops/exams/${path}`, headers.length === 0 ? [OPS] : headers);
  return { read, lines };
}

t.test('only the holder of OPS_TOKEN and an ADMIN read an exam', async (t) => {
  const { read } = await openExams(t);
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
  const { read } = await openExams(t);
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
  const { read, lines } = await openExams(t);
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
  const { read } = await openExams(t);
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
    t.strictSame(withoutTimes(list), withoutTimes((await read(`${examId}/attempts${query}`)).json.data), query);
    t.strictSame(withoutTimes(exam), withoutTimes((await read(examId)).json.data));
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

interface Page {
  lines: { id: string }[];
  nextCursor: string | null;
}

const as = (role: string) => ['X-User-Id: someone', `X-User-Role: ${role}`];

async function openTrace(t: Test, change: Partial<TraceDeps> = {}, gateway?: string) {
  const lines: object[] = [];
  const log: TraceDeps['log'] = { info: (fields) => void lines.push(fields) };
  const pingRedis = async () => undefined;
  const routes = traceRoutes({ mongo, now: Date.now, log, opsToken: [SECRET], pingRedis, ...change });
  const gate = gatewayToken(gateway === undefined ? {} : { gatewayToken: [gateway] });
  const options: TestDoorOptions = { routes: behindGateway(routes, gate) };
  const { port } = await openTestDoor(t, { ...options, schemas: 'product' });
  const read = (query: string, ...headers: string[]) => ask(t, port, 'GET', `/v1/ops/trace${query}`, headers);
  return { read, lines };
}

t.test('only the holder of OPS_TOKEN and an ADMIN read a trace', async (t) => {
  const { read } = await openTrace(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const query = `?id=${attempt._id}`;
  t.equal((await read(query, OPS)).status, 200);
  t.equal((await read(query, ...as('ADMIN'))).status, 200);
  t.equal((await read(query, 'Authorization: Bearer of-a-user', ...as('ADMIN'))).status, 200);
  for (const role of ['STUDENT', 'TEACHER', 'PARENT', 'admin']) {
    t.match(await read(query, ...as(role)), { status: 403, json: { code: 'FORBIDDEN', data: undefined } }, role);
  }
  for (const headers of [[], ['Authorization: Bearer wrong'], [OPS, OPS], ['X-User-Role: ADMIN']]) {
    t.match(await read(query, ...headers), { status: 401, json: { code: 'UNAUTHENTICATED' } }, headers.join());
  }
  const off = await openTrace(t, { opsToken: undefined });
  t.equal((await off.read(query, OPS)).status, 401, 'without OPS_TOKEN only an ADMIN reads');
  t.equal((await off.read(query, ...as('ADMIN'))).status, 200);
});

t.test('an identity needs the token of the gateway, and OPS_TOKEN does not', async (t) => {
  const { read } = await openTrace(t, {}, 'gateway-secret');
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const query = `?id=${attempt._id}`;
  t.equal((await read(query, ...as('ADMIN'))).status, 401);
  t.equal((await read(query, ...as('ADMIN'), 'X-Gateway-Token: gateway-secret')).status, 200);
  t.equal((await read(query, OPS)).status, 200);
});

t.test('a query names exactly one subject, and a cursor that a reply contained', async (t) => {
  const { read } = await openTrace(t);
  for (const query of ['', '?id=a&exam=b', '?student=a&user=b', '?id=a&limit=0', '?id=a&limit=501', '?id=a&limit=x']) {
    t.match(await read(query, OPS), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  }
  for (const query of ['?id=a&id=b', '?id[$ne]=a', '?id=', `?id=${'a'.repeat(257)}`, '?id=a&cursor=x']) {
    t.match(await read(query, OPS), { status: 400, json: { code: 'VALIDATION_FAILED' } }, query);
  }
  t.match(await read('?id=unknown', OPS), { status: 404, json: { code: 'TRACE_NOT_FOUND' } });
});

t.test('the reply has the summary first, and pages that meet each line once', async (t) => {
  const { read, lines } = await openTrace(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  await read(`?id=${attempt._id}`, OPS);
  t.match(lines, [{ operator: 'OPS_TOKEN', asked: 'id', found: 'attempt' }, { action: 'object.trace' }]);
  const whole = (await read(`?id=${attempt._id}`, OPS)).json.data;
  t.match(whole, { subject: 'attempt', verdicts: [{ standing: 'stuck', code: 'NO_WORKER' }], nextCursor: null });
  const seen = [];
  let cursor: string | null = null;
  do {
    const page: Page = (await read(`?id=${attempt._id}&limit=1${cursor === null ? '' : `&cursor=${cursor}`}`, OPS)).json
      .data;
    seen.push(...page.lines);
    cursor = page.nextCursor;
  } while (cursor !== null);
  t.strictSame(
    seen.map(({ id }) => id),
    whole.lines.map(({ id }: { id: string }) => id),
  );
  t.notMatch(JSON.stringify(whole), /Sông Hương|"selected"|totalScore/, 'no answer and no score');
});

t.test('the tool prints with --json what the route returns, page by page', async (t) => {
  const { read } = await openTrace(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  await postGrading(mongo, attempt);
  const { account } = await storeSignedIn(mongo);

  const tool = (...words: string[]) => callExamhall(mongo, ['trace', ...words], { env });
  for (const [query, wanted] of [
    [`id=${attempt._id}`, attempt._id],
    [`exam=${attempt.examId}`, `exam:${attempt.examId}`],
    [`student=${attempt.studentId}`, `student:${attempt.studentId}`],
    [`user=${account._id}`, `user:${account._id}`],
  ] as const) {
    // The first read adds its own line to the trace.
    await read(`?${query}`, OPS);
    await tool(wanted);
    const { data } = (await read(`?${query}`, OPS)).json;
    t.ok(data.lines.length > 0, query);
    t.strictSame(withoutAges(JSON.parse((await tool(wanted, '--json')).out)), withoutAges(data), query);
  }
  const of = (page: string) => read(`?id=${attempt._id}&limit=1${page}`, OPS);
  const { nextCursor } = (await of('')).json.data;
  const second = (await of(`&cursor=${nextCursor}`)).json.data;
  const { out } = await tool(attempt._id, '--limit', '1', '--cursor', nextCursor, '--json');
  t.strictSame(withoutAges(JSON.parse(out)), withoutAges(second));
  t.match((await tool(attempt._id, '--limit', '1')).out, new RegExp(`^more follow: pass --cursor ${nextCursor}$`, 'm'));
  t.match(await tool(attempt._id, '--cursor', 'x'), { code: 2, out: '', err: /^error: --cursor must be/ });
});

t.test('the trace of a person is audited once an hour, under a digest of the id', async (t) => {
  const { read } = await openTrace(t);
  const { account } = await storeSignedIn(mongo);
  for (let n = 0; n < 3; n++) t.equal((await read(`?user=${account._id}`, ...as('ADMIN'))).status, 200);
  const rows = await operatorAudit(mongo).find({ operator: 'ADMIN someone', action: 'account.trace' }).toArray();
  t.equal(rows.length, 1);
  t.notMatch(JSON.stringify(rows), account._id);
  const trace = (await read(`?user=${account._id}`, ...as('ADMIN'))).json;
  t.notMatch(JSON.stringify(trace), account.email, 'no e-mail');
  t.notMatch(JSON.stringify(trace), account.fullName, 'no name');
});

t.test('the trace of an object is audited once an hour, whichever of its ids an operator uses', async (t) => {
  const { read } = await openTrace(t);
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const command = await postGrading(mongo, attempt);
  const traces = [
    { query: `id=${attempt._id}`, subject: attempt._id, kind: 'attempt' },
    { query: `exam=${attempt.examId}`, subject: attempt.examId, kind: 'exam' },
    { query: `id=${command._id}`, subject: await tombstoneId(mongo, command._id), kind: 'command' },
  ];
  for (const { query, subject, kind } of traces) {
    const replies = await Promise.all([1, 2, 3, 4, 5].map(() => read(`?${query}`, ...as('ADMIN'))));
    t.ok(replies.every(({ status }) => status === 200));
    const rows = await operatorAudit(mongo).find({ operator: 'ADMIN someone', subject }).toArray();
    t.match(rows, [{ action: 'object.trace', detail: { subject: kind } }], kind);
    t.equal(rows.length, 1, kind);
  }
});
