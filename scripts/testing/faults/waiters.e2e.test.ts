import t from 'tap';
import { scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/crowd.ts';
import { doorsOf, type Student, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { untilSlowly } from '#testing/until.ts';

const WAITERS = scaled(200, 2_000);
const SAVES = 40;

// web1 waits for a grade much longer than the saves take, even on a slow machine; web2 soon answers 202.
const cluster = await startCluster(t, {
  inside: true,
  apart: ['grading'],
  doors: 2,
  workers: [],
  asleep: ['grading'],
  envOf: { web1: { ATTEMPT_GRADING_WAIT_MS: '60000' }, web2: { ATTEMPT_GRADING_WAIT_MS: '1000' } },
  neighbours: false,
});
const door = doorsOf(cluster);
const hastyDoor = cluster.door(2).url;
const stored = storedBy(cluster);

/** Submits and returns the status of the reply, with its code or the state of the attempt. */
async function submitAt(place: string, who: Student, id: string): Promise<string> {
  const reply = await retryOn503(() => who.submit(place, id));
  return `${reply.status} ${reply.code ?? reply.data.status}`;
}

t.test('many submits that wait for missing grades do not delay the saves of another student', async (t) => {
  const examId = newExamId();
  const crew = await crowd(WAITERS, 16, async () => {
    const who = student();
    return { who, id: await started(who, door(), { examId }) };
  });
  const busy = student();
  const writing = await started(busy, door(), { examId: newExamId() });

  let answered = 0;
  const waiting = crew.map(async ({ who, id }) => {
    const end = await submitAt(door(), who, id);
    answered += 1;
    return end;
  });
  await untilSlowly('all students have submitted', async () => {
    return (await stored.attempts.countDocuments({ examId, status: 'SUBMITTED' })) === WAITERS;
  });
  const before = answered;
  const saves = await crowd(SAVES, 2, (n) =>
    retryOn503(() => busy.save(door(), writing, { questionId: 'q1', text: `${n}` })),
  );
  t.same(tally(saves.map(({ status }) => status)), { 200: SAVES });
  t.comment(`${before} of ${WAITERS} were answered before the saves, ${answered} after them`);
  t.ok(answered < WAITERS, 'the saves end before all submits are answered');
  const hasty = crew.map(({ who, id }) => submitAt(hastyDoor, who, id));
  t.same(tally(await Promise.all(hasty)), { '202 SUBMITTED': WAITERS }, 'the wait is bounded');

  await cluster.start('grading');
  // A submit whose own wait ended before the grade is answered 202.
  const ends = (await Promise.all(waiting)).filter((end) => end !== '202 SUBMITTED');
  t.same(tally(ends), ends.length === 0 ? {} : { '200 GRADED': ends.length });
  await untilSlowly('every attempt is graded', async () => {
    return (await stored.attempts.countDocuments({ examId, status: 'GRADED' })) === WAITERS;
  });
  t.equal(await stored.commands.countDocuments({ queue: 'grading', status: 'DONE' }), WAITERS);
});

t.test('a submit whose client hangs up while it waits is still graded', async (t) => {
  await cluster.kill('grading');
  const who = student();
  const id = await started(who, door(), { examId: newExamId() });
  const hungUp = new AbortController();
  const sent = fetch(`${door()}/v1/attempts/${id}/submit`, {
    method: 'POST',
    headers: { 'x-user-id': who.id, 'x-user-role': 'STUDENT', 'content-type': 'application/json' },
    body: '{}',
    signal: hungUp.signal,
  });
  await untilSlowly('the attempt is submitted', async () => {
    return (await stored.attempts.countDocuments({ _id: id, status: 'SUBMITTED' })) === 1;
  });
  hungUp.abort();
  await t.rejects(sent);
  await cluster.start('grading');
  await untilSlowly(
    'the attempt is graded',
    async () => (await stored.attempts.countDocuments({ _id: id, status: 'GRADED' })) === 1,
  );
});
