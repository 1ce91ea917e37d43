import t from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { type Asked, readTrace, type Trace } from '#infra/mongo/operations/trace.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { ATTEMPT_SERVICE, gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newEvent } from '#shared/notification/event.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import { sampleFanOut } from '#testing/stored/sample-fan-out.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { html } from './html.ts';
import type { PageCall } from './screen.ts';
import { traceScreen } from './trace.ts';
import type { Language } from './words.ts';

type Read = Parameters<typeof traceScreen>[0]['trace'];

async function show(read: Read, query: string, language: Language = 'en') {
  const call: PageCall = {
    params: {},
    query: new URLSearchParams(query),
    language,
    operator: 'an',
    proof: html``,
    requestId: 'request-1',
    now: Date.now(),
  };
  const shown = await traceScreen({ trace: read }).render(call);
  return 'status' in shown ? { status: shown.status, text: `${shown.html}` } : { status: 200, text: `${shown}` };
}

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
    const { status, text } = await show(read, `q=student:${attempt.studentId}`, language);
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
  const { status, text } = await show(read, `q=${encodeURIComponent('  "><script>alert(1)</script> ')}`);
  t.equal(status, 404);
  t.notMatch(text, '<script');
  t.match(text, 'value="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"');
  t.match(text, 'student:ID');
  t.strictSame(asked, [{ by: 'id', value: '"><script>alert(1)</script>' }]);
  for (const query of ['', 'q=', 'q=student:']) t.match(await show(read, query), { status: 200, text: /user:ID/ });
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
    const { text } = await show(read, query);
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
