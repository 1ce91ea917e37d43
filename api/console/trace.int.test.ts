import t from 'tap';
import { openAttemptReader, readAttemptsFor } from '#api/operations/exams.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { openExamReader, readExam } from '#infra/mongo/operations/exam.ts';
import { type Asked, readTrace, type Trace } from '#infra/mongo/operations/trace.ts';
import { OPERATOR_AUDIT, operatorAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { ATTEMPT_SERVICE, gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { newEvent } from '#shared/notification/event.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import {
  freshAttempt,
  graded,
  postGrading,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { sampleFanOut } from '#testing/stored/stored-notifications.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { exams } from './exams.ts';
import { type Html, html } from './html.ts';
import type { PageCall, Shown } from './screen.ts';
import { traceScreen } from './trace.ts';

const mongo = await openTestMongo(t);
const log = { info: () => undefined };
const reading = { mongo, log, now: Date.now, pingRedis: async () => undefined };
const screen = exams({
  exam: (examId) => readExam(mongo, examId, Date.now()),
  examAttempts: (page, by) => readAttemptsFor(reading, page, by),
});

const callOf = (query: string | Record<string, string>, change: Partial<PageCall> = {}): PageCall => ({
  params: {},
  query: new URLSearchParams(query),
  language: 'en',
  operator: 'ADMIN a',
  proof: html``,
  requestId: 'r',
  now: Date.now(),
  ...change,
});

/** Returns the status and the text of a page. */
const textOf = (shown: Html | Shown) =>
  'status' in shown ? { status: shown.status, text: `${shown.html}` } : { status: 200, text: `${shown}` };
const showExam = async (query: Record<string, string>, change?: Partial<PageCall>) =>
  textOf(await screen.render(callOf(query, change)));

t.test('an exam is found by its id, and shows counts, faults and a link from each attempt to its trace', async (t) => {
  const examId = 'exam-of-board';
  const late = await storeAttempt(mongo, { examId, deadlineAt: new Date(Date.now() - 60_000) });
  const waiting = await storeAttempt(mongo, { examId, deadlineAt: null, ...SUBMITTED });
  await postGrading(mongo, waiting);
  await storeAttempt(mongo, { examId, deadlineAt: null, ...graded() });
  await postRelease(mongo, { examId, sourceEventId: 'r & 1', releasedAt: new Date(Date.now() + 60_000) });
  await mongo.db.collection(NOTICES).insertOne({ key: newId(), status: 'DEAD', body: { examId } });
  const { text } = await showExam({ exam: examId });
  for (const { _id } of [late, waiting]) t.match(text, `href="/ops/trace?q=${_id}"`);
  t.match(
    text,
    /class="alarm"><strong>Not graded · No worker<\/strong><br>\nno live <code>grading<\/code> worker; 1 command due/,
  );
  t.match(text, /1 notice is dead\./);
  t.match(text, /1 attempt is in progress past the deadline/);
  t.match(text, /<rect class="open" x="0" y="0" width="33\.333"/);
  t.match(text, /late by \d+ s/);
  t.match(text, /href="\/ops\/trace\?q=r\+%26\+1">r &amp; 1<\/a>/);
  t.match((await showExam({ exam: examId }, { language: 'vi' })).text, /Chưa chấm · Không có worker/);
  t.notMatch(text, /Sông Hương/);
});

t.test('filters and the walk are links, and one student is audited', async (t) => {
  const examId = 'exam-of-walk';
  const ids = Array.from({ length: 52 }, () => newId()).sort();
  await attempts(mongo).insertMany(ids.map((_id, n) => freshAttempt({ _id, examId, studentId: `s & ${n}` })));
  const first = await showExam({ exam: examId, status: 'IN_PROGRESS' });
  t.match(first.text, `href="/ops/exams?exam=${examId}&amp;status=IN_PROGRESS&amp;student=s+%26+0">s &amp; 0</a>`);
  const [, next = ''] = /href="\/ops\/exams\?([^"]*)" rel="next"/.exec(first.text) ?? [];
  const second = await showExam(Object.fromEntries(new URLSearchParams(next.replaceAll('&amp;', '&'))));
  t.equal(second.text.match(/ops\/trace\?q=/g)?.length, 2);
  t.notMatch(second.text, /rel="next"/);
  const cursor = new URLSearchParams(next.replaceAll('&amp;', '&')).get('cursor') ?? '';
  t.match(await showExam({ exam: examId, cursor }), { status: 400, text: /Begin the walk again/ });
  t.match(await showExam({ exam: examId, status: 'SUBMITTED' }), { status: 200, text: /No attempt has these/ });

  for (let n = 0; n < 2; n++) t.equal((await showExam({ exam: examId, student: 's & 3' })).status, 200);
  const audited = await operatorAudit(mongo).find({ operator: 'ADMIN a' }).sort({ _id: -1 }).limit(2).toArray();
  t.match(audited, [{ action: 'account.attempts' }, { action: 'exam.attempts', subject: examId }]);
});

t.test('an unknown exam is 404, and without an id the page requires one', async (t) => {
  t.match(await showExam({ exam: 'unknown' }), { status: 404, text: /Nothing of this exam is stored/ });
  t.match(await showExam({}), { status: 200, text: /Enter the id of an exam/ });
  t.match(await showExam({ exam: '"><script>' }), { status: 404, text: /value="&quot;&gt;&lt;script&gt;"/ });
});

t.test('viewers of an exam at the same time share one reading, and each of them is logged', async (t) => {
  const [lonely, popular] = ['exam-of-one-viewer', 'exam-of-many-viewers'] as const;
  for (const examId of [lonely, popular]) await storeAttempt(mongo, { examId, deadlineAt: null });
  let reads = 0;
  const db = tappedDb(mongo, (_, name, collection) => {
    if (collection === OPERATOR_AUDIT) return undefined;
    if (name === 'find' || name === 'findOne' || name === 'aggregate' || name === 'countDocuments') reads += 1;
    return undefined;
  });
  const tapped = { ...mongo, db };
  const logged: object[] = [];
  const watching = { ...reading, mongo: tapped, log: { info: (fields: object) => void logged.push(fields) } };
  const readPage = openAttemptReader(watching);
  const shared = exams({
    exam: openExamReader(tapped, Date.now),
    examAttempts: (page, by) => readAttemptsFor(watching, page, by, readPage),
  });
  const view = (exam: string, operator: string) => shared.render(callOf({ exam }, { operator }));
  await view(lonely, 'ADMIN a');
  const ofOne = reads;
  t.ok(ofOne > 0);
  const pages = await Promise.all(['ADMIN b', 'ADMIN c', 'ADMIN d'].map((operator) => view(popular, operator)));
  for (const page of pages) t.match(`${page}`, popular);
  t.equal(reads, 2 * ofOne, 'three viewers read as much as one');
  const pagesRead = logged.filter((fields) => 'examId' in fields);
  t.match(pagesRead, [
    { operator: 'ADMIN a', examId: lonely },
    ...['b', 'c', 'd'].map((name) => ({ operator: `ADMIN ${name}`, examId: popular })),
  ]);
});

type Read = Parameters<typeof traceScreen>[0]['trace'];

const showTrace = async (read: Read, query: string, language: PageCall['language'] = 'en') =>
  textOf(await traceScreen({ trace: read }).render(callOf(query, { language })));

t.test('the first screen of a pupil answers why a parent was not notified', async (t) => {
  const mongo = await openTestMongo(t);
  const attempt = await storeAttempt(mongo, graded());
  const notices = gradeNotices(attempt);
  await inTransaction(mongo, 60_000, (session) =>
    queueNotices(mongo, session, notices, { maxAttempts: 10, now: Date.now() }),
  );
  await mongo.db
    .collection<Command>(NOTICES)
    .updateMany({}, { $set: { status: 'DELIVERED', settledAt: new Date(), result: { recipients: 1 } } });
  const parents = `${attempt._id}:notification:grade_released_parent`;
  const fanOut = sampleFanOut({ rows: 0 });
  const event = newEvent(
    { sourceService: ATTEMPT_SERVICE, sourceEventId: parents, targetUserIds: ['mother-1'] },
    {
      id: fanOut.fanOutId,
      now: new Date(),
      created: 0,
      organizationId: null,
      suppressed: [{ userId: 'mother-1', reason: 'MUTED' }],
    },
  );
  await insertFanOut(mongo, { ...fanOut, event });
  const asked: Asked[] = [];
  const read: Read = (wanted) => {
    asked.push(wanted);
    return readTrace(mongo, wanted, { now: Date.now(), redis: 'up' });
  };
  for (const language of ['en', 'vi'] as const) {
    const { status, text } = await showTrace(read, `q=student:${attempt.studentId}`, language);
    t.equal(status, 200);
    const first = text.slice(0, text.indexOf('<ol'));
    t.match(
      first,
      language === 'en' ? 'Never happens · Muted by the user' : 'không được báo · Người dùng tắt thông báo',
    );
    t.match(first, 'not notified: the user has muted notifications');
    t.match(first, 'href="/ops/trace?q=user%3Amother-1"', 'the mother is one click away');
    t.match(text, `href="/ops/trace?q=${attempt._id}"`);
    t.match(text, 'href="/ops/trace?q=exam%3Aexam-1"');
  }
  t.strictSame(asked[0], { by: 'student', value: attempt.studentId });
});

t.test('a search without a result keeps the text, escaped, and names the prefixes', async (t) => {
  const asked: Asked[] = [];
  const read: Read = async (wanted) => {
    asked.push(wanted);
    return null;
  };
  const { status, text } = await showTrace(read, `q=${encodeURIComponent('  "><script>alert(1)</script> ')}`);
  t.equal(status, 404);
  t.notMatch(text, '<script');
  t.match(text, 'value="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"');
  t.match(text, 'student:ID');
  t.strictSame(asked, [{ by: 'id', value: '"><script>alert(1)</script>' }]);
  for (const query of ['', 'q=', 'q=student:']) t.match(await showTrace(read, query), { status: 200, text: /user:ID/ });
  t.equal(asked.length, 1, 'an empty search reads nothing');
});

t.test('a long timeline has pages, and stored text is escaped', async (t) => {
  const lines = Array.from({ length: 250 }, (_, n) =>
    traceLine({ at: new Date(n), kind: 'command', id: `c-${n}`, state: 'DONE', what: '<b>grading</b>' }),
  );
  const trace: Trace = { subject: 'exam', person: null, verdicts: [], moreVerdicts: 2, lines, cut: ['command'] };
  const read: Read = async () => trace;
  const seen: string[] = [];
  let query = 'q=exam:e';
  for (let page = 0; page < 3; page++) {
    const { text } = await showTrace(read, query);
    t.notMatch(text, '<b>');
    seen.push(...[...text.matchAll(/<code>(c-\d+)<\/code>/g)].map(([, id = '']) => id));
    query = /href="\/ops\/trace\?(q=exam%3Ae&amp;after=[^"]*)"/.exec(text)?.[1]?.replaceAll('&amp;', '&') ?? '';
  }
  t.strictSame(
    seen,
    lines.map(({ id }) => id),
  );
  t.equal(query, '', 'the last page has no later one');
});
