import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/call.ts';
import { doorsOf, readAsTeacher, release, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { slowMongo } from '#testing/stores/slow-mongo.ts';
import { untilSlowly } from '#testing/until.ts';

/** Attempts per exam that are started, submitted and graded while its results are released. */
const ATTEMPTS = 2;
const EXAMS = scaled(40, 1_000);
const MAX_ROUNDS = 5;
const chance = openChance((line) => t.comment(line));
const slow = (mostMs: number) => slowMongo(mostMs, chance.below(2 ** 31));
const cluster = await startCluster(t, {
  inside: true,
  apart: ['web2', 'grading', 'resultsrelease'],
  doors: 2,
  workers: ['grading', 'resultsrelease', 'gradenotices'],
  envOf: { grading: slow(40), resultsrelease: slow(40), web2: slow(20) },
});
const { neighbours } = cluster;
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

/** Recent duration of a start and a submit (ms). Releases are spread over it, however slow the machine is. */
let sittingMs = 50;

async function late<T>(uptoMs: number, work: () => Promise<T>): Promise<T> {
  await delay(chance.next() * uptoMs);
  return work();
}

/** Runs `work` and returns its result with the times at which it began and ended (ms). */
async function timed<T>(work: () => Promise<T>): Promise<{ reply: T; from: number; to: number }> {
  const from = performance.now();
  return { reply: await work(), from, to: performance.now() };
}

t.test(
  'a release notifies the student and the parents of each attempt that it binds exactly once, at any stage',
  async (t) => {
    const oneExam = async (n: number) => {
      const plan = { examId: newExamId(), showResultMode: 'MANUAL' as const };
      const crew = Array.from({ length: ATTEMPTS }, () => student());
      const begin = (who: (typeof crew)[number], at: number) =>
        timed(() => retryOn503(() => who.start(door(n + at), plan, who.id)));
      // In half of the exams the starts race the release too.
      const before = n % 2 === 0 ? await Promise.all(crew.map(begin)) : [];
      const [released, ...sat] = await Promise.all([
        late(1.5 * sittingMs, () =>
          timed(() => retryOn503(() => release(door(n), plan.examId, `release-${plan.examId}`))),
        ),
        ...crew.map((who, at) =>
          late(before[at] === undefined ? 1.5 * sittingMs : sittingMs / 4, async () => {
            const began = performance.now();
            const start = before[at] ?? (await begin(who, at));
            const { data } = start.reply;
            const { status } = await retryOn503(() => who.submit(door(n + at + 1), data.attempt.id));
            sittingMs = 0.8 * sittingMs + 0.2 * (performance.now() - began);
            return { id: data.attempt.id, status, start };
          }),
        ),
      ]);
      // Sends the same release again; for a quarter of the exams also under another id.
      const again = [retryOn503(() => release(door(n), plan.examId, `release-${plan.examId}`))];
      const isSecond = n % 4 === 0;
      if (isSecond) again.push(retryOn503(() => release(door(n + 1), plan.examId, `second-${plan.examId}`)));
      await Promise.all(again);
      return { ...plan, released, attempts: sat, isSecond };
    };
    const releases: Awaited<ReturnType<typeof oneExam>>[] = [];
    const met = () => tally(releases.map(({ released }) => released.reply.data.queuedNotifications ?? 0));
    // Repeats until releases have met both graded and ungraded attempts; how many rounds that takes depends on the machine.
    for (let round = 0; round < MAX_ROUNDS && (round === 0 || Object.keys(met()).length === 1); round++) {
      releases.push(...(await crowd(EXAMS, 6, oneExam)));
    }

    const exams = releases.length;
    t.same(tally(releases.map(({ released }) => released.reply.status)), { 200: exams });
    const ids = releases.flatMap(({ attempts }) => attempts.map(({ id }) => id));
    t.equal(ids.length, exams * ATTEMPTS);
    // On a busy machine a submit may be answered before its grade.
    await untilSlowly('every attempt is graded', async () => {
      return (await stored.attempts.countDocuments({ status: { $ne: 'GRADED' } })) === 0;
    });
    const released = await stored.attempts.find({ 'exam.resultsReleasedAt': { $ne: null } }).toArray();
    const bound = new Set(released.map(({ _id }) => String(_id)));
    const starts = { before: 0, meanwhile: 0, after: 0 };
    for (const { released: by, attempts, isSecond } of releases) {
      for (const { id, start } of attempts) {
        // A start answered before the release was sent came before it; one sent after the release's reply came after it.
        const place = start.to < by.from ? 'before' : start.from > by.to ? 'after' : 'meanwhile';
        starts[place] += 1;
        if (place === 'before' || isSecond) t.ok(bound.has(id), 'a release binds the attempts that were there');
        else if (place === 'after') t.notOk(bound.has(id), 'a release binds no later start');
      }
    }
    t.comment('starts by their place round the release:', JSON.stringify(starts));
    const rows = await stored.notices.find({}, { projection: { _id: 1 } }).toArray();
    const expected = [...bound].flatMap((id) => [
      `${id}:notification:grade_released`,
      `${id}:notification:grade_released_parent`,
    ]);
    t.same(
      rows.map(({ _id }) => _id).sort(),
      expected.sort(),
      'one row for the student and one for the parents of each attempt that is bound',
    );
    await untilSlowly('every notice has arrived', async () => neighbours.notices.size === expected.length);
    t.same(tally(neighbours.notices.values()), { 1: expected.length }, 'each arrived once');

    t.comment('notices queued by the release itself, per exam:', JSON.stringify(met()));
    t.ok(Object.keys(met()).length > 1, 'releases met graded attempts and attempts not yet graded');
    const sample = await readAsTeacher(door(), ids[0] ?? '');
    t.match(sample.data, { status: 'GRADED', resultVisible: true });
  },
);

t.test('one release sent by 20 senders at once is applied once', async (t) => {
  const plan = { examId: newExamId(), showResultMode: 'MANUAL' as const };
  const crew = Array.from({ length: 5 }, () => student());
  const ids = await Promise.all(
    crew.map(async (who, n) => {
      const id = await started(who, door(n), plan);
      t.equal((await retryOn503(() => who.submit(door(n), id))).status, 200);
      return id;
    }),
  );
  const replies = await crowd(20, 20, (n) => retryOn503(() => release(door(n), plan.examId, `release-${plan.examId}`)));
  t.same(tally(replies.map(({ status }) => status)), { 200: 20 });
  const sum = (field: 'updatedAttempts' | 'queuedNotifications') =>
    replies.reduce((total, { data }) => total + (data[field] ?? 0), 0);
  t.same([sum('updatedAttempts'), sum('queuedNotifications')], [ids.length, 2 * ids.length]);
});
