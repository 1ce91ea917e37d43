import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/call.ts';
import {
  type Detail,
  doorsOf,
  handIn,
  readAsTeacher,
  sendHandoff,
  started,
  student,
} from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { closeExam, storedBy } from '#testing/stored/stored.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  inside: true,
  apart: ['web1', 'web2', 'grading', 'grading2', 'examroom'],
  doors: 2,
  workers: ['grading', 'grading', 'gradenotices', 'essayhandoff', 'upkeep', 'examroom'],
});
const { neighbours } = cluster;
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

/** Returns the events that submitted an attempt. They carry a score; a plain TIMEOUT event of a client does not. */
function submitEvents(events: readonly { type: string; metadata: Record<string, unknown> }[]) {
  return events.filter(({ metadata }) => 'totalScore' in metadata);
}

function noticesOf(attemptId: string) {
  return [...neighbours.notices].filter(([id]) => id.startsWith(attemptId)).sort();
}

t.test('50 concurrent submits, by the student and by the deadline, submit once', async (t) => {
  for (let round = 0; round < scaled(3, 40); round++) {
    const who = student();
    const id = await started(who, door(), { examId: newExamId(), questions: 3 });
    await retryOn503(() => who.save(door(), id, { questionId: 'q2', text: '2' }));
    const replies = await crowd(50, 50, (n) =>
      retryOn503(() => (n % 3 === 0 ? who.timeout(door(n), id) : who.submit(door(n), id))),
    );
    const counts = tally(replies.map(({ status }) => status));
    t.same(
      Object.keys(counts).filter((status) => status !== '200' && status !== '201'),
      [],
      `submitted or, as an event of a submitted attempt, logged: ${JSON.stringify(counts)}`,
    );
    const events = submitEvents((await readAsTeacher(door(), id)).data.events);
    t.equal(events.length, 1, 'one submit');
    const details = replies.filter(({ status, data }) => status === 200 && data.status === 'GRADED');
    t.equal(new Set(details.map(({ data }) => data.submittedBy)).size, 1, 'every reply names the same source');
    t.match(details[0]?.data, { totalScore: 1, submittedBy: events[0]?.type === 'TIMEOUT' ? 'TIMEOUT' : 'STUDENT' });

    const [one, two] = await Promise.all([0, 1].map((n) => retryOn503(() => who.submit(door(n), id))));
    const withoutTime = ({ serverTime, ...rest }: Partial<Detail> = {}) => rest;
    t.same(withoutTime(one?.data), withoutTime(two?.data), 'every later reply is the same');
    t.match(one, { status: 200, data: { id } });

    t.equal(await stored.commands.countDocuments({ subject: id, queue: 'grading' }), 1);
    // Two workers send in any order: one the notices, the other one the analytics events.
    const analyticsOf = () => [...neighbours.analytics].filter(([event]) => event.startsWith(id)).sort();
    await until(
      'notices and analytics events have arrived',
      () => noticesOf(id).length === 2 && analyticsOf().length === 2,
    );
    t.same(
      noticesOf(id).map(([, times]) => times),
      [1, 1],
    );
    t.same(analyticsOf(), [
      [`${id}:graded`, 1],
      [`${id}:submitted`, 1],
    ]);
  }
});

t.test('a submit of the student and one of the teacher, each sent twice, submit once', async (t) => {
  const sources = new Set<string | null>();
  for (let round = 0; round < scaled(8, 60); round++) {
    const who = student();
    const id = await started(who, door(), { examId: newExamId() });
    await retryOn503(() => who.save(door(), id, { questionId: 'q1', text: '1' }));
    const byStudent = (n: number) => retryOn503(() => who.submit(door(n), id));
    const byTeacher = (n: number) => retryOn503(() => handIn(door(n), id, `hand-in-${id}`));
    // The ends of the race are certain; between them the student is later and later.
    const isTeacherAlone = round % 8 === 7;
    const first = round % 8 === 0 ? [await byStudent(0)] : isTeacherAlone ? [await byTeacher(0)] : [];
    const replies = await Promise.all([
      ...[0, 1].map((n) => byTeacher(n)),
      ...[0, 1].map((n) => delay(round * 4).then(() => byStudent(n))),
    ]);

    const seen = (await readAsTeacher(door(), id)).data;
    sources.add(seen.submittedBy);
    if (isTeacherAlone) t.equal(seen.submittedBy, 'TEACHER');
    for (const { status, data } of [...first, ...replies]) {
      t.match(
        { status, data },
        { status: 200, data: { status: 'GRADED', submittedBy: seen.submittedBy, totalScore: 1 } },
      );
    }
    const [event, ...others] = submitEvents(seen.events);
    t.match(event, { type: 'SUBMIT', metadata: { source: seen.submittedBy } });
    t.same(others, [], 'one submit');
    t.equal(await stored.commands.countDocuments({ subject: id, queue: 'grading' }), 1, 'one grade');
    t.equal(await stored.commands.countDocuments({ subject: id, queue: 'examroom' }), 1, 'one act of the teacher');
    const audited = await cluster.mongo.collection('operator_audit').countDocuments({ subject: id });
    t.equal(audited, seen.submittedBy === 'TEACHER' ? 1 : 0, 'the audit names the act that changed something');
    await until('notices have arrived', () => noticesOf(id).length === 2);
  }
  t.same([...sources].sort(), ['STUDENT', 'TEACHER']);
});

t.test('30 saves after the deadline submit once, and none is stored', async (t) => {
  const who = student();
  const id = await started(who, door(), { examId: newExamId() });
  t.equal((await retryOn503(() => who.save(door(), id, { questionId: 'q1', text: '1' }))).status, 200);
  await closeExam(cluster.mongo, id, new Date());
  const replies = await crowd(30, 30, (n) =>
    retryOn503(() => who.save(door(n), id, { questionId: 'q1', text: 'late' })),
  );
  // A save after the submit finds a locked attempt: the lock is checked before the deadline.
  const counts = tally(replies.map(({ message }) => message));
  t.same(
    Object.keys(counts).filter((said) => said !== 'Exam duration expired' && said !== 'Attempt is locked'),
    [],
  );
  t.ok((counts['Exam duration expired'] ?? 0) >= 1);
  t.same(new Set(replies.map(({ status }) => status)), new Set([409]));
  const graded = await until('the attempt is graded', async () => {
    const { data } = await readAsTeacher(door(), id);
    return data.status === 'GRADED' && data;
  });
  t.match(graded, { submittedBy: 'TIMEOUT', totalScore: 1 });
  t.same(
    submitEvents(graded.events).map(({ type }) => type),
    ['TIMEOUT'],
  );
  t.equal(await stored.commands.countDocuments({ subject: id, queue: 'grading' }), 1);
});

t.test('a handoff that races the grading loses neither score', async (t) => {
  await crowd(scaled(10, 200), 8, async (n) => {
    const who = student();
    const id = await started(who, door(), { examId: newExamId(), questions: 2, essay: true });
    await Promise.all([
      retryOn503(() => who.save(door(n), id, { questionId: 'q1', text: '1' })),
      retryOn503(() => who.save(door(n + 1), id, { questionId: 'essay', text: 'Sông Hương' })),
    ]);
    const grade = { sourceEventId: `grade-${id}`, questionId: 'essay', score: 2.5 };
    const [, ...handoffs] = await Promise.all([
      retryOn503(() => who.submit(door(n), id)),
      ...Array.from({ length: 4 }, async (_, sender) => {
        // A handoff before the submit is refused and may be sent again under the same id.
        for (;;) {
          const reply = await retryOn503(() => sendHandoff(door(n + sender), id, grade));
          if (reply.code !== 'ATTEMPT_NOT_SUBMITTED') return reply;
        }
      }),
    ]);
    t.equal(handoffs.filter(({ data }) => data.applied === true).length, 1, 'applied for one sender');
    const graded = (await readAsTeacher(door(n), id)).data;
    t.equal(graded.totalScore, 3.5, 'the grade by machine and the one by hand');
    t.equal(graded.events.filter(({ type }) => type === 'ESSAY_GRADE_HANDOFF').length, 1);
    t.equal(submitEvents(graded.events).length, 1);
  });
});

t.test('20 concurrent manual grades for one attempt all count', async (t) => {
  const who = student();
  const id = await started(who, door(), { examId: newExamId(), essay: true });
  await retryOn503(() => who.save(door(), id, { questionId: 'essay', text: 'bài văn' }));
  await retryOn503(() => who.submit(door(), id));
  const scores = Array.from({ length: 20 }, (_, n) => n / 4);
  const replies = await crowd(20, 20, (n) =>
    retryOn503(() =>
      sendHandoff(door(n), id, { sourceEventId: `${id}-${n}`, questionId: 'essay', score: scores[n] ?? 0 }),
    ),
  );
  t.same(tally(replies.map(({ status, data }) => `${status} ${data.applied}`)), { '200 true': 20 });
  const attempt = await stored.attempts.findOne({ _id: id });
  const last = attempt?.events.findLast(({ type }) => type === 'ESSAY_GRADE_HANDOFF');
  t.equal(attempt?.totalScore, JSON.parse(last?.metadata ?? '{}').score, 'the total is that of the last one applied');
  t.equal(attempt?.events.filter(({ type }) => type === 'ESSAY_GRADE_HANDOFF').length, 20);
});
