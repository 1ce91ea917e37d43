import t from 'tap';
import { MAX_START_KEY_ALIASES } from '#shared/attempt/limits.ts';
import { scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, insist, tally } from '#testing/clients/crowd.ts';
import type { HttpReply } from '#testing/clients/http-call.ts';
import { doorsOf, type Started, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';

const cluster = await startCluster(t, { doors: 2, workers: ['grading'] });
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

/** What everybody who started was told, once the busy ones have asked again. */
function outcome(replies: readonly HttpReply<Started>[]) {
  const told = replies.filter(({ status }) => status < 300);
  return {
    statuses: tally(replies.map(({ status, code }) => code ?? status)),
    ids: new Set(told.map(({ data }) => data.attempt.id)),
    created: told.filter(({ data }) => data.created).length,
    replayed: tally(told.map(({ headers }) => String(headers['idempotency-replayed']))),
  };
}

t.test('200 starts of one student with different keys make one attempt', async (t) => {
  const plan = { examId: newExamId() };
  const who = student();
  const replies = await crowd(200, 200, (n) => insist(() => who.start(door(n), plan, `key-${n}`)));
  const { ids, created, statuses, replayed } = outcome(replies);
  t.same(statuses, { 201: 1, 200: 199 });
  t.same([ids.size, created], [1, 1]);
  t.same(replayed, { false: 200 }, 'no key was known before');
  const kept = await stored.attempts.find({ examId: plan.examId }).toArray();
  t.equal(kept.length, 1);
  t.same(
    kept[0]?.events.map(({ type }) => type),
    ['START'],
  );

  // The first 50 others became its aliases; which they were, the race decided.
  const known = kept[0]?.startKeys ?? [];
  t.equal(new Set(known).size, MAX_START_KEY_ALIASES + 1);
  const again = await insist(() => who.start(door(1), plan, known.at(-1)));
  t.match(again.headers, { 'idempotency-replayed': 'true' });
  t.same(again.data.attempt.id, [...ids][0]);
});

t.test('200 starts of one student with one key make one attempt', async (t) => {
  const plan = { examId: newExamId() };
  const who = student();
  const replies = await crowd(200, 200, (n) => insist(() => who.start(door(n), plan, 'one-key')));
  const { ids, created, statuses, replayed } = outcome(replies);
  t.same(statuses, { 201: 1, 200: 199 });
  t.same([ids.size, created], [1, 1]);
  t.same(replayed, { false: 1, true: 199 });
  t.equal(await stored.attempts.countDocuments({ examId: plan.examId }), 1);
});

t.test('a key and an exam are shared by 50 students: each gets an attempt of their own', async (t) => {
  const plan = { examId: newExamId() };
  const crew = Array.from({ length: 50 }, () => student());
  const replies = await Promise.all(crew.map((who, n) => insist(() => who.start(door(n), plan, 'shared-key'))));
  const { ids, statuses } = outcome(replies);
  t.same(statuses, { 201: 50 });
  t.equal(ids.size, 50);
});

t.test('30 seats and a crowd of students give 30 attempts', async (t) => {
  const students = scaled(120, 500);
  const plan = {
    examId: newExamId(),
    link: { id: `link-${newExamId()}`, mode: 'GUEST_ALLOWED' as const, studentLimit: 30 },
  };
  const crew = Array.from({ length: students }, () => student());
  const replies = await crowd(students, students, async (n) => {
    const who = crew[n] ?? student();
    return insist(() => who.start(door(n), plan, 'mine'));
  });
  const { ids, statuses, created } = outcome(replies);
  t.same(statuses, { 201: 30, ACCESS_LINK_FULL: students - 30 });
  t.same([ids.size, created], [30, 30]);
  t.equal(await stored.attempts.countDocuments({ examId: plan.examId }), 30);
  const taken = await stored.seats.find({ linkId: plan.link.id }).toArray();
  t.same(
    taken.map(({ seat }) => seat ?? -1).sort((a, b) => a - b),
    Array.from({ length: 30 }, (_, seat) => seat),
  );
  t.equal(new Set(taken.map(({ studentId }) => studentId)).size, 30);
});

t.test('a limit of two attempts holds against starts and submits that race each other', async (t) => {
  const plan = { examId: newExamId(), maxAttempts: 2 };
  const who = student();
  // Each lane starts, hands in what it got and starts anew under a fresh key, so limits are judged at all moments.
  const lanes = await crowd(20, 20, async (lane) => {
    const codes: string[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const reply = await insist(() => who.start(door(lane + turn), plan, `${lane}-${turn}`));
      codes.push(reply.code ?? `${reply.status}`);
      if (reply.status < 300) await insist(() => who.submit(door(lane), reply.data.attempt.id));
    }
    return codes;
  });
  const statuses = tally(lanes.flat());
  t.equal(statuses['201'], 2, 'two were created');
  t.same(
    Object.keys(statuses).filter((code) => !['200', '201', 'ATTEMPT_LIMIT_REACHED'].includes(code)),
    [],
  );
  const kept = await stored.attempts.find({ examId: plan.examId }, { sort: { attemptNumber: 1 } }).toArray();
  t.same(
    kept.map(({ attemptNumber }) => attemptNumber),
    [1, 2],
  );
});

t.test('one link allows each student once, however the starts come', async (t) => {
  const plan = {
    examId: newExamId(),
    maxAttempts: 1,
    link: { id: `link-${newExamId()}`, mode: 'LOGIN_REQUIRED' as const },
  };
  const who = student();
  const id = await started(who, door(), plan);
  const race = await Promise.all([
    insist(() => who.submit(door(0), id)),
    ...Array.from({ length: 20 }, (_, n) => insist(() => who.start(door(n), plan, `late-${n}`))),
  ]);
  const starts = race.slice(1);
  t.same(
    Object.keys(tally(starts.map(({ status, code }) => code ?? status))).filter(
      (word) => !['200', 'ATTEMPT_LIMIT_REACHED'].includes(word),
    ),
    [],
  );
  t.equal(await stored.attempts.countDocuments({ examId: plan.examId }), 1);
});
