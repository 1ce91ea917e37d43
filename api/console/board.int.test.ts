import t from 'tap';
import { openBoardReader } from '#api/operations/exams.ts';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { readExam } from '#infra/mongo/operations/exam.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { freshAttempt, graded, postRelease, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { board } from './board.ts';
import { html } from './html.ts';

const mongo = await openTestMongo(t);
let summaries = 0;
const db = tappedDb(mongo, (_, name, collection) => {
  if (name === 'aggregate' && collection === attempts(mongo).collectionName) summaries += 1;
  return undefined;
});
const deps = { mongo: { ...mongo, db }, log: { info: () => undefined }, now: Date.now };
const screen = board({ exam: (examId) => readExam(mongo, examId, Date.now()), board: openBoardReader(deps) });

async function show(query: Record<string, string>, { operator = 'ADMIN a', language = 'en' as 'en' | 'vi' } = {}) {
  const call = { params: {}, query: new URLSearchParams(query), language, operator, proof: html``, requestId: 'r' };
  const shown = await screen.render({ ...call, now: Date.now() });
  return 'status' in shown ? { status: shown.status, text: `${shown.html}` } : { status: 200, text: `${shown}` };
}

/** Returns the rows of a page, as texts without tags. */
const rowsOf = (text: string) =>
  [...text.matchAll(/<tr class.*?<\/tr>/gs)].map(([row]) =>
    row
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
/** Returns the query of the link to the next page. */
const nextOf = (text: string) =>
  Object.fromEntries(
    new URLSearchParams(/href="\/ops\/exams\/board\?([^"]*)" rel="next"/.exec(text)?.[1]?.replaceAll('&amp;', '&')),
  );

const before = (seconds: number) => new Date(Date.now() - seconds * 1_000);
const person = (fullName: unknown, className: unknown = '12A1') => JSON.stringify({ fullName, className });
const EXAM = 'exam & board';
const SIGN = { deadlineAt: new Date(Date.now() + 1_205_000), lastSeenAt: before(10), lastSavedAt: before(30) };
const store = (studentId: string, change: Partial<Attempt> = {}) =>
  storeAttempt(mongo, { examId: EXAM, studentId, ...SIGN, ...change });

const away = await store('s1', {
  studentInfo: person('Nguyễn Thị Mai'),
  away: { count: 3, seconds: 20, since: before(60) },
  networkRetries: 4,
  extraMinutes: 15,
});
await store('s2', {
  studentInfo: person('<img src=x onerror="x">\u202e', ['<b>']),
  lastSeenAt: before(300),
  lastSavedAt: null as never,
});
await store('s3', { deadlineAt: before(200), lastSeenAt: before(120), studentInfo: person(' \u200b', null) });
await store('s4', { ...SUBMITTED, voidedAt: new Date(), studentInfo: JSON.stringify({ name: 'Lê Hoàng Anh' }) });
await store('s5', { ...graded(), attemptNumber: 2 });

t.test('a row shows the student, the state in words and the signs, and a count leads to its rows', async (t) => {
  const { status, text } = await show({ exam: EXAM });
  t.equal(status, 200);
  const [ofAway = '', silent = '', overdue = '', voided = '', second = '', ...more] = rowsOf(text);
  t.strictSame(more, []);
  t.match(
    ofAway,
    /^Nguyễn Thị Mai 12A1 s1 in progress away often away 2\/2 20 min \+15 min .* UTC 10 s ago 30 s ago 3 times · 8\d s 4$/,
  );
  t.match(silent, /s2 in progress silent 2\/2 20 min .* UTC 5 min ago – – –$/);
  t.match(
    overdue,
    /^s3 in progress silent overdue 2\/2 late by 3 min .* UTC 2 min ago/,
    'without a name the id stands for it',
  );
  t.match(voided, /^Lê Hoàng Anh s4 submitted voided 2\/2 – /);
  t.match(second, /^s5 no\. 2 graded 2\/2 – /);
  t.match(text, `href="/ops/trace?q=${away._id}"><bdi>Nguyễn Thị Mai</bdi>`);
  t.match(text, /in progress <strong>3<.*submitted <strong>0<.*graded <strong>1</s, 'a voided attempt is in no count');
  t.match(text, 'silent</dt><dd><a href="/ops/exams/board?exam=exam+%26+board&amp;flag=SILENT">2</a>');
  t.match(text, 'href="/ops/audit?subject=exam+%26+board"');
  const vi = await show({ exam: EXAM }, { language: 'vi' });
  t.match(rowsOf(vi.text)[0], /đang làm đang rời trang hay rời trang 2\/2 20 phút \+15 phút .* 3 lần · 8\d giây 4$/);
});

t.test('the names of strangers are text', async (t) => {
  const { text } = await show({ exam: EXAM });
  t.match(text, 'title="&lt;img src=x onerror=&quot;x&quot;&gt;"');
  t.match(text, '<bdi>&lt;img src=x onerror=&quot;x&quot;&gt;</bdi>', 'without what turns the text beside it');
  t.notMatch(text, /<img|<b>|\u202e|\u200b/);
  t.match(await show({ exam: '"><script>' }), { status: 404, text: /^(?!.*<script)/s });
});

t.test('status and flag narrow the rows', async (t) => {
  const students = async (query: Record<string, string>) =>
    rowsOf((await show({ exam: EXAM, ...query })).text).map((row) => /s\d/.exec(row)?.[0]);
  t.strictSame(await students({ status: '', flag: '' }), ['s1', 's2', 's3', 's4', 's5']);
  t.strictSame(await students({ status: 'SUBMITTED' }), ['s4']);
  t.strictSame(await students({ flag: 'AWAY' }), ['s1']);
  t.strictSame(await students({ flag: 'OFTEN_AWAY' }), ['s1']);
  t.strictSame(await students({ flag: 'SILENT', status: 'IN_PROGRESS' }), ['s2', 's3']);
  t.strictSame(await students({ flag: 'OVERDUE' }), ['s3']);
  const none = await show({ exam: EXAM, status: 'GRADED', flag: 'AWAY' });
  t.match(none, { status: 200, text: /No attempt has these properties/ });
  t.match(none.text, /<option value="GRADED" selected>.*<option value="AWAY" selected>/s);
});

t.test('a page has a hundred rows, and its links keep the filters', async (t) => {
  const examId = 'exam-of-pages';
  const many = Array.from({ length: 103 }, (_, n) =>
    freshAttempt({ examId, studentId: `p${1_000 + n}`, ...(n === 50 ? { ...SUBMITTED } : {}) }),
  );
  await attempts(mongo).insertMany(many);
  const first = await show({ exam: examId, status: 'IN_PROGRESS' });
  t.notMatch(first.text, 'First page');
  const next = nextOf(first.text);
  t.match(next, { exam: examId, status: 'IN_PROGRESS', after: /./ });
  const second = await show(next);
  t.match(second.text, `<a href="/ops/exams/board?exam=${examId}&amp;status=IN_PROGRESS">First page</a>`);
  t.strictSame(nextOf(second.text), {});
  const pages = [first, second].map(({ text }) => rowsOf(text).map((row) => row.slice(0, 5)));
  t.equal(pages[0]?.length, 100);
  t.strictSame(
    pages.flat(),
    many.map(({ studentId }) => studentId).filter((_, n) => n !== 50),
  );
});

t.test(
  'an unknown filter or place is 400, an unknown exam 404, and an exam without attempts has an empty board',
  async (t) => {
    for (const wrong of [{ status: 'OPEN' }, { flag: 'away' }, { after: 'x' }, { after: '' }]) {
      const { status, text } = await show({ exam: EXAM, ...wrong });
      t.equal(status, 400, JSON.stringify(wrong));
      t.match(
        text,
        /class="warning">No page of the board has this address.*href="\/ops\/exams\/board\?exam=exam\+%26\+board"/s,
      );
      t.strictSame(rowsOf(text), []);
    }
    t.match(await show({}), { status: 404, text: /Nothing of this exam is stored/ });
    await postRelease(mongo, { examId: 'exam-without-attempts' });
    t.match(await show({ exam: 'exam-without-attempts' }), {
      status: 200,
      text: /started<\/dt><dd>0<.*No attempt has/s,
    });
  },
);

t.test('viewers at the same time share one reading, and the audit has a row for each of them', async (t) => {
  await storeAttempt(mongo, { examId: 'exam-of-viewers' });
  summaries = 0;
  const operators = ['ADMIN b', 'ADMIN c'];
  await Promise.all(operators.map((operator) => show({ exam: 'exam-of-viewers' }, { operator })));
  await show({ exam: 'exam-of-viewers' }, { operator: 'ADMIN c' });
  t.equal(summaries, 1);
  const audited = await operatorAudit(mongo).find({ subject: 'exam-of-viewers' }).toArray();
  t.match(audited.map(({ operator }) => operator).sort(), operators);
  for (const { action } of audited) t.equal(action, 'exam.attempts');
});
