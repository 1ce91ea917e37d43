import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/crowd.ts';
import { doorsOf, readAsTeacher, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';

const cluster = await startCluster(t, { inside: true, apart: ['web1', 'web2'], doors: 2, workers: ['grading'] });
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);
const chance = openChance((line) => t.comment(line));

t.test('a save that races the submit is either graded or refused', async (t) => {
  const sittings = scaled(30, 250);
  const questions = 10;
  const statuses = await crowd(sittings, 12, async (n) => {
    const who = student();
    const id = await started(who, door(n), { examId: newExamId(), questions });
    const submitsAfter = chance.below(questions);
    let submitted: Promise<unknown> | undefined;
    // Each question gets one correct answer, so the score equals the number of accepted saves.
    const saves = await crowd(questions, 4, async (question) => {
      if (question === submitsAfter) submitted = retryOn503(() => who.submit(door(n + 1), id));
      const text = `${question + 1}`;
      return retryOn503(() => who.save(door(n + question), id, { questionId: `q${question + 1}`, text }));
    });
    await submitted;
    const graded = await readAsTeacher(door(n), id);
    const taken = saves.flatMap(({ status }, question) => (status === 200 ? [`q${question + 1}`] : []));
    t.equal(graded.data.status, 'GRADED');
    const same = t.same(
      [graded.data.totalScore, graded.data.answers.map(({ questionId }) => questionId).sort()],
      [taken.length, [...taken].sort()],
      'the graded answers are the accepted ones',
    );
    if (!same)
      t.comment(
        `attempt ${id}`,
        saves.map(({ status, code }) => code ?? status),
      );
    return saves.map(({ status, code }) => code ?? `${status}`);
  });
  const counts = tally(statuses.flat());
  t.same(Object.keys(counts).sort(), ['200', 'ATTEMPT_LOCKED'], `nothing else was answered: ${JSON.stringify(counts)}`);
});

t.test('saves of one question from 50 tabs get versions 1 to n without a gap, and one event each', async (t) => {
  const who = student();
  const id = await started(who, door(), { examId: newExamId() });
  const tabs = 50;
  const each = scaled(2, 40);
  const replies = await crowd(tabs * each, tabs, (n) =>
    retryOn503(() => who.save(door(n), id, { questionId: 'q1', text: `${n}` })),
  );
  t.same(tally(replies.map(({ status, code }) => code ?? status)), { 200: tabs * each });
  const versions = replies.map(({ data }) => data.answers[0]?.serverVersion ?? 0).sort((a, b) => a - b);
  t.same(
    versions,
    Array.from({ length: tabs * each }, (_, n) => n + 1),
  );
  const last = replies.find(({ data }) => data.answers[0]?.serverVersion === tabs * each);
  const kept = await retryOn503(() => who.read(door(), id));
  t.same(kept.data.answers[0]?.answer, last?.data.answers[0]?.answer, 'the newest version is the one that is kept');
  t.equal(kept.data.eventCount, tabs * each + 1);

  const attempt = await stored.attempts.findOne({ _id: id });
  const rows = await stored.events.find({ attemptId: id }).toArray();
  const tail = (attempt?.events ?? []).filter(({ inRow }) => inRow !== true);
  const wanted = Array.from({ length: tabs * each + 1 }, (_, n) => n + 1);
  const bySeq = (seqs: Iterable<number>) => [...seqs].sort((a, b) => a - b);
  t.same(bySeq(new Set([...rows, ...tail].map(({ seq }) => seq))), wanted, 'no event is lost');
  t.same(bySeq(tail.map(({ seq }) => seq)), wanted.slice(-tail.length), 'the tail holds the newest ones');
  const shown = await retryOn503(() => who.log(door(), id));
  t.equal(shown.data.length, wanted.length, 'a reader gets each event once');
});

t.test(
  'one of several tabs with the same version saves; each other gets a conflict with the stored answer',
  async (t) => {
    const who = student();
    const id = await started(who, door(), { examId: newExamId() });
    await retryOn503(() => who.save(door(), id, { questionId: 'q1', text: 'first' }));
    const rounds = scaled(4, 50);
    for (let seen = 1; seen <= rounds; seen++) {
      const replies = await crowd(16, 16, (n) =>
        retryOn503(() => who.save(door(n), id, { questionId: 'q1', text: `${seen}:${n}`, clientVersion: seen })),
      );
      t.same(tally(replies.map(({ status, code }) => code ?? status)), { 200: 1, ANSWER_VERSION_CONFLICT: 15 });
      const winner = replies.findIndex(({ status }) => status === 200);
      for (const { data } of replies.filter(({ status }) => status === 409)) {
        t.match(data, { answer: { serverVersion: seen + 1, answer: { textAnswer: `${seen}:${winner}` } } });
      }
    }
    const kept = await retryOn503(() => who.read(door(), id));
    t.equal(kept.data.answers[0]?.serverVersion, rounds + 1);
    t.equal(kept.data.eventCount, rounds + 2, 'START and one event per accepted save');
  },
);

t.test(
  'requests to an attempt that a dead process’s transaction locks get 503 in time, and succeed afterwards',
  async (t) => {
    const [who, plan] = [student(), { examId: newExamId() }];
    const id = await started(who, door(), plan);
    const session = cluster.mongo.client.startSession();
    t.teardown(() => session.endSession());
    session.startTransaction();
    await stored.attempts.updateOne({ _id: id }, { $set: { stamp: 'never committed' } }, { session });
    // Each of these requests meets the lock and must answer before MongoDB releases it.
    const met = await Promise.all([
      who.save(door(0), id, { questionId: 'q1', text: '1' }),
      who.submit(door(1), id),
      who.start(door(0), plan, 'another key'),
    ]);
    t.ok(session.inTransaction(), 'all have been answered while it is held');
    t.same(tally(met.map(({ status, code }) => `${status} ${code}`)), { '503 UNAVAILABLE': met.length });
    t.ok(met.every(({ headers }) => /^\d+$/.test(headers['retry-after'] ?? '')));
    await session.abortTransaction();
    t.equal((await retryOn503(() => who.save(door(0), id, { questionId: 'q1', text: '1' }))).status, 200);
    t.equal((await retryOn503(() => who.submit(door(1), id))).status, 200);
  },
);
