import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, insist, tally } from '#testing/clients/crowd.ts';
import { doorsOf, readAsTeacher, release, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { storedBy } from '#testing/stored/stored.ts';
import { slowMongo } from '#testing/stores/slow-mongo.ts';
import { until } from '#testing/until.ts';

/** Attempts of one exam that are started, handed in and graded while their results are released. */
const ATTEMPTS = 2;
const EXAMS = scaled(40, 1_000);
const MOST_ROUNDS = 5;
const chance = openChance((line) => t.comment(line));
const slow = (mostMs: number) => slowMongo(mostMs, chance.below(2 ** 31));
const cluster = await startCluster(t, {
  doors: 2,
  workers: ['grading', 'resultsrelease', 'gradenotices'],
  envOf: { grading: slow(40), resultsrelease: slow(40), web2: slow(20) },
});
const { neighbours } = cluster;
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

/** How long a start and a submit took of late (ms): releases are spread over all of it, however slow the machine. */
let sittingMs = 50;

async function late<T>(uptoMs: number, work: () => Promise<T>): Promise<T> {
  await delay(chance.next() * uptoMs);
  return work();
}

t.test('whatever a release meets, each attempt is announced to its student once and to the parents once', async (t) => {
  const oneExam = async (n: number) => {
    const plan = { examId: newExamId(), showResultMode: 'MANUAL' as const };
    const crew = Array.from({ length: ATTEMPTS }, () => student());
    const begin = (who: (typeof crew)[number], at: number) => insist(() => who.start(door(n + at), plan, who.id));
    // Half of the exams race the release with their starts as well.
    const before = n % 2 === 0 ? await Promise.all(crew.map(begin)) : [];
    const [released, ...sat] = await Promise.all([
      late(1.5 * sittingMs, () => insist(() => release(door(n), plan.examId, `release-${plan.examId}`))),
      ...crew.map((who, at) =>
        late(before[at] === undefined ? 1.5 * sittingMs : sittingMs / 4, async () => {
          const began = performance.now();
          const { data } = before[at] ?? (await begin(who, at));
          const { status } = await insist(() => who.submit(door(n + at + 1), data.attempt.id));
          sittingMs = 0.8 * sittingMs + 0.2 * (performance.now() - began);
          return { id: data.attempt.id, status };
        }),
      ),
    ]);
    // In half of the exams the same release is told again, and by another id too.
    const again = [insist(() => release(door(n), plan.examId, `release-${plan.examId}`))];
    if (n % 4 === 0) again.push(insist(() => release(door(n + 1), plan.examId, `second-${plan.examId}`)));
    await Promise.all(again);
    return { ...plan, released, attempts: sat };
  };
  const releases: Awaited<ReturnType<typeof oneExam>>[] = [];
  const met = () => tally(releases.map(({ released }) => released.data.queuedNotifications ?? 0));
  // Until releases have met attempts that were graded and attempts that were not: how many that takes, the machine says.
  for (let round = 0; round < MOST_ROUNDS && (round === 0 || Object.keys(met()).length === 1); round++) {
    releases.push(...(await crowd(EXAMS, 6, oneExam)));
  }

  const exams = releases.length;
  t.same(tally(releases.map(({ released }) => released.status)), { 200: exams });
  const ids = releases.flatMap(({ attempts }) => attempts.map(({ id }) => id));
  t.equal(ids.length, exams * ATTEMPTS);
  const rows = await stored.notices.find({}, { projection: { _id: 1 } }).toArray();
  const expected = ids.flatMap((id) => [
    `${id}:notification:grade_released`,
    `${id}:notification:grade_released_parent`,
  ]);
  t.same(
    rows.map(({ _id }) => _id).sort(),
    expected.sort(),
    'one row for the student and one for the parents of each attempt',
  );
  await until('every notice has arrived', () => neighbours.notices.size === expected.length);
  t.same(tally(neighbours.notices.values()), { 1: expected.length }, 'each arrived once');

  t.comment('notices queued by the release itself, per exam:', JSON.stringify(met()));
  t.ok(Object.keys(met()).length > 1, 'releases met graded attempts and attempts not yet graded');
  const unreleased = await stored.attempts.countDocuments({ 'exam.resultsReleasedAt': null });
  t.equal(unreleased, 0, 'each attempt carries the release');
  const sample = await readAsTeacher(door(), ids[0] ?? '');
  t.match(sample.data, { status: 'GRADED', resultVisible: true });
});

t.test('one release sent by 20 senders at once counts once', async (t) => {
  const plan = { examId: newExamId(), showResultMode: 'MANUAL' as const };
  const crew = Array.from({ length: 5 }, () => student());
  const ids = await Promise.all(
    crew.map(async (who, n) => {
      const id = await started(who, door(n), plan);
      t.equal((await insist(() => who.submit(door(n), id))).status, 200);
      return id;
    }),
  );
  const replies = await crowd(20, 20, (n) => insist(() => release(door(n), plan.examId, `release-${plan.examId}`)));
  t.same(tally(replies.map(({ status }) => status)), { 200: 20 });
  const sum = (field: 'updatedAttempts' | 'queuedNotifications') =>
    replies.reduce((total, { data }) => total + (data[field] ?? 0), 0);
  t.same([sum('updatedAttempts'), sum('queuedNotifications')], [ids.length, 2 * ids.length]);
});
