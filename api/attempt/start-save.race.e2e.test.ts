import t from 'tap';
import { MAX_START_KEY_ALIASES } from '#shared/attempt/limits.ts';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, type HttpReply, retryOn503, tally } from '#testing/clients/call.ts';
import { doorsOf, readAsTeacher, type Started, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';

const cluster = await startCluster(t, { inside: true, apart: ['web1', 'web2'], doors: 2, workers: ['grading'] });
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);
const chance = openChance((line) => t.comment(line));

/** Concurrent starts of one student: more than an attempt has aliases of its key. */
const STARTS = scaled(80, 200);

/** Summarizes the final replies to a crowd of starts, after the retries of those that got 503. */
function outcome(replies: readonly HttpReply<Started>[]) {
  const told = replies.filter(({ status }) => status < 300);
  return {
    statuses: tally(replies.map(({ status, code }) => code ?? status)),
    ids: new Set(told.map(({ data }) => data.attempt.id)),
    created: told.filter(({ data }) => data.created).length,
    replayed: tally(told.map(({ headers }) => String(headers['idempotency-replayed']))),
  };
}

t.test('many starts of one student with different keys create one attempt', async (t) => {
  const plan = { examId: newExamId() };
  const who = student();
  const replies = await crowd(STARTS, STARTS, (n) => retryOn503(() => who.start(door(n), plan, `key-${n}`)));
  const { ids, created, statuses, replayed } = outcome(replies);
  t.same(statuses, { 201: 1, 200: STARTS - 1 });
  t.same([ids.size, created], [1, 1]);
  t.same(replayed, { false: STARTS }, 'no key was known before');
  const kept = await stored.attempts.find({ examId: plan.examId }).toArray();
  t.equal(kept.length, 1);
  t.same(
    kept[0]?.events.map(({ type }) => type),
    ['START'],
  );

  // The keys of the last 50 other starts are aliases; the race decided which.
  const known = kept[0]?.startKeys ?? [];
  t.equal(new Set(known).size, MAX_START_KEY_ALIASES + 1);
  const again = await retryOn503(() => who.start(door(1), plan, known.at(-1)));
  t.match(again.headers, { 'idempotency-replayed': 'true' });
  t.same(again.data.attempt.id, [...ids][0]);
});

t.test('many starts of one student with one key create one attempt', async (t) => {
  const plan = { examId: newExamId() };
  const who = student();
  const replies = await crowd(STARTS, STARTS, (n) => retryOn503(() => who.start(door(n), plan, 'one-key')));
  const { ids, created, statuses, replayed } = outcome(replies);
  t.same(statuses, { 201: 1, 200: STARTS - 1 });
  t.same([ids.size, created], [1, 1]);
  t.same(replayed, { false: 1, true: STARTS - 1 });
  t.equal(await stored.attempts.countDocuments({ examId: plan.examId }), 1);
});

t.test(
  'a start that the rules refuse stays refused, even if it loses a race against a start that they admit',
  async (t) => {
    const plan = { examId: newExamId() };
    const closed = { ...plan, closeTime: new Date(Date.now() - 60_000) };
    const who = student();
    // Every other start sends the exam as closed. It must get no attempt, whether one is open already or not.
    const replies = await crowd(STARTS, STARTS, (n) =>
      retryOn503(() => who.start(door(n), n % 2 === 0 ? closed : plan, `key-${n}`)),
    );
    const refused = replies.filter((_, n) => n % 2 === 0);
    t.same(tally(refused.map(({ status, code }) => code ?? status)), { EXAM_CLOSED: STARTS / 2 });
    const { ids, created, statuses } = outcome(replies.filter((_, n) => n % 2 === 1));
    t.same(statuses, { 201: 1, 200: STARTS / 2 - 1 });
    t.same([ids.size, created], [1, 1]);
    const [kept] = await stored.attempts.find({ examId: plan.examId }).toArray();
    t.same(
      kept?.startKeys.filter((key) => Number(key.split('-')[1]) % 2 === 0),
      [],
      'a refused key is no alias',
    );
  },
);

t.test('50 students with the same key and exam each get an attempt of their own', async (t) => {
  const plan = { examId: newExamId() };
  const crew = Array.from({ length: 50 }, () => student());
  const replies = await Promise.all(crew.map((who, n) => retryOn503(() => who.start(door(n), plan, 'shared-key'))));
  const { ids, statuses } = outcome(replies);
  t.same(statuses, { 201: 50 });
  t.equal(ids.size, 50);
});

t.test('a link with 30 seats admits 30 of a crowd of students', async (t) => {
  const students = scaled(60, 500);
  const plan = {
    examId: newExamId(),
    link: { id: `link-${newExamId()}`, mode: 'GUEST_ALLOWED' as const, studentLimit: 30 },
  };
  const crew = Array.from({ length: students }, () => student());
  const replies = await crowd(students, students, async (n) => {
    const who = crew[n] ?? student();
    return retryOn503(() => who.start(door(n), plan, 'mine'));
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

t.test('concurrent starts of one student take one seat of a link', async (t) => {
  for (let round = 0; round < scaled(4, 10); round++) {
    const examId = newExamId();
    const link = { id: `link-${examId}`, mode: 'GUEST_ALLOWED' as const, studentLimit: 1 };
    const who = student();
    const oneKey = round % 2 === 0;
    const replies = await crowd(20, 20, (n) =>
      retryOn503(() => who.start(door(n), { examId, link }, oneKey ? 'mine' : `mine-${n}`)),
    );
    const { ids, statuses } = outcome(replies);
    t.same(statuses, { 201: 1, 200: 19 }, oneKey ? 'one key' : 'a key each');
    t.equal(ids.size, 1);
    const other = await retryOn503(() => student().start(door(), { examId, link }));
    t.equal(other.code, 'ACCESS_LINK_FULL');
  }
});

t.test('a limit of two attempts holds while starts and submits race each other', async (t) => {
  const plan = { examId: newExamId(), maxAttempts: 2 };
  const who = student();
  // Each lane starts, submits and starts again under a fresh key, so limits are checked at every stage.
  const lanes = await crowd(20, 20, async (lane) => {
    const codes: string[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const reply = await retryOn503(() => who.start(door(lane + turn), plan, `${lane}-${turn}`));
      codes.push(reply.code ?? `${reply.status}`);
      if (reply.status < 300) await retryOn503(() => who.submit(door(lane), reply.data.attempt.id));
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

t.test('a login link with a limit of one admits each student once under concurrent starts', async (t) => {
  const plan = {
    examId: newExamId(),
    maxAttempts: 1,
    link: { id: `link-${newExamId()}`, mode: 'LOGIN_REQUIRED' as const },
  };
  const who = student();
  const id = await started(who, door(), plan);
  const race = await Promise.all([
    retryOn503(() => who.submit(door(0), id)),
    ...Array.from({ length: 20 }, (_, n) => retryOn503(() => who.start(door(n), plan, `late-${n}`))),
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
