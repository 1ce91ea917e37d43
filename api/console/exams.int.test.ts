import t from 'tap';
import { boardReader, readAttemptsFor } from '#api/operations/exams.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { openExamReader, readExam } from '#infra/mongo/operations/exam.ts';
import { OPERATOR_AUDIT, operatorAudit } from '#infra/mongo/operator-audit.ts';
import { newId } from '#shared/kernel/ids.ts';
import {
  freshAttempt,
  graded,
  postGrading,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { exams } from './exams.ts';
import { html } from './html.ts';
import type { PageCall } from './screen.ts';

const mongo = await openTestMongo(t);
const log = { info: () => undefined };
const reading = { mongo, log, now: Date.now, pingRedis: async () => undefined };
const screen = exams({
  exam: (examId) => readExam(mongo, examId, Date.now()),
  examAttempts: (page, by) => readAttemptsFor(reading, page, by),
});

/** Returns the status and the text of the page. */
async function show(query: Record<string, string>, change: Partial<PageCall> = {}) {
  const call = {
    params: {},
    language: 'en',
    operator: 'ADMIN a',
    proof: html``,
    requestId: 'r',
    now: Date.now(),
  } as const;
  const shown = await screen.render({ ...call, ...change, query: new URLSearchParams(query) });
  return 'status' in shown ? { status: shown.status, text: `${shown.html}` } : { status: 200, text: `${shown}` };
}

t.test('an exam is found by its id, and shows counts, faults and a link from each attempt to its trace', async (t) => {
  const examId = 'exam-of-board';
  const late = await storeAttempt(mongo, { examId, deadlineAt: new Date(Date.now() - 60_000) });
  const waiting = await storeAttempt(mongo, { examId, deadlineAt: null, ...SUBMITTED });
  await postGrading(mongo, waiting);
  await storeAttempt(mongo, { examId, deadlineAt: null, ...graded() });
  await postRelease(mongo, { examId, sourceEventId: 'r & 1', releasedAt: new Date(Date.now() + 60_000) });
  await mongo.db.collection(NOTICES).insertOne({ key: newId(), status: 'DEAD', body: { examId } });
  const { text } = await show({ exam: examId });
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
  t.match((await show({ exam: examId }, { language: 'vi' })).text, /Chưa chấm · Không có worker/);
  t.notMatch(text, /Sông Hương/);
});

t.test('filters and the walk are links, and one student is audited', async (t) => {
  const examId = 'exam-of-walk';
  const ids = Array.from({ length: 52 }, () => newId()).sort();
  await attempts(mongo).insertMany(ids.map((_id, n) => freshAttempt({ _id, examId, studentId: `s & ${n}` })));
  const first = await show({ exam: examId, status: 'IN_PROGRESS' });
  t.match(first.text, `href="/ops/exams?exam=${examId}&amp;status=IN_PROGRESS&amp;student=s+%26+0">s &amp; 0</a>`);
  const [, next = ''] = /href="\/ops\/exams\?([^"]*)" rel="next"/.exec(first.text) ?? [];
  const second = await show(Object.fromEntries(new URLSearchParams(next.replaceAll('&amp;', '&'))));
  t.equal(second.text.match(/ops\/trace\?q=/g)?.length, 2);
  t.notMatch(second.text, /rel="next"/);
  const cursor = new URLSearchParams(next.replaceAll('&amp;', '&')).get('cursor') ?? '';
  t.match(await show({ exam: examId, cursor }), { status: 400, text: /Begin the walk again/ });
  t.match(await show({ exam: examId, status: 'SUBMITTED' }), { status: 200, text: /No attempt has these/ });

  for (let n = 0; n < 2; n++) t.equal((await show({ exam: examId, student: 's & 3' })).status, 200);
  const audited = await operatorAudit(mongo).find({ operator: 'ADMIN a' }).sort({ _id: -1 }).limit(2).toArray();
  t.match(audited, [{ action: 'account.attempts' }, { action: 'exam.attempts', subject: examId }]);
});

t.test('an unknown exam is 404, and without an id the page requires one', async (t) => {
  t.match(await show({ exam: 'unknown' }), { status: 404, text: /Nothing of this exam is stored/ });
  t.match(await show({}), { status: 200, text: /Enter the id of an exam/ });
  t.match(await show({ exam: '"><script>' }), { status: 404, text: /value="&quot;&gt;&lt;script&gt;"/ });
});

t.test('viewers of a board at the same time share one reading, and each of them is logged', async (t) => {
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
  const board = boardReader(watching);
  const shared = exams({
    exam: openExamReader(tapped, Date.now),
    examAttempts: (page, by) => readAttemptsFor(watching, page, by, board),
  });
  const call = { params: {}, language: 'en', proof: html``, requestId: 'r', now: Date.now() } as const;
  const view = (exam: string, operator: string) =>
    shared.render({ ...call, operator, query: new URLSearchParams({ exam }) });
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
