import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { scaled } from '../../scripts/faults/chance.ts';
import { startCluster } from '../../scripts/faults/cluster.ts';
import { crowd, tally } from '../../scripts/faults/crowd.ts';
import { newExamId, readAsTeacher, student } from '../../scripts/faults/sitting.ts';
import { attempts } from '../../shared/infra/mongo/attempt/collections.ts';
import { openNeighbours } from '../../shared/testing/neighbours.ts';
import { until } from '../../shared/testing/until.ts';

const TEN_MINUTES = 600_000;
const CLOSES_IN_MS = 4_000;
/** What a start may take from MongoDB's time to its own reading of it, and back to us. */
const SLACK_MS = 1_000;

/** A process whose wall clock is wrong by so much. */
function skewed(ms: number): NodeJS.ProcessEnv {
  const preload = pathToFileURL(path.resolve(import.meta.dirname, '../../shared/testing/skew-clock.ts')).href;
  return { NODE_OPTIONS: `--import ${preload}`, EXAMHALL_CLOCK_SKEW_MS: `${ms}` };
}

const neighbours = await openNeighbours(t);
const cluster = await startCluster(t, {
  doors: 2,
  workers: ['grading', 'gradenotices', 'upkeep'],
  env: { ...neighbours.env, ATTEMPT_OVERDUE_GRACE_SECONDS: '1', UPKEEP_INTERVAL_MS: '200' },
  envOf: {
    'web 0': skewed(TEN_MINUTES / 2),
    'web 1': skewed(-TEN_MINUTES / 2),
    'grading 0': skewed(TEN_MINUTES),
    'gradenotices 0': skewed(-TEN_MINUTES),
    'upkeep 0': skewed(TEN_MINUTES),
  },
});
const { mongo } = cluster;

/** MongoDB's clock; here it is this machine's own, and that is checked. */
async function mongoNow(): Promise<number> {
  const hello = await mongo.db.admin().command({ hello: 1 });
  return hello.localTime.getTime();
}

t.test('doors whose clocks are ten minutes apart judge one deadline alike', async (t) => {
  t.ok(Math.abs((await mongoNow()) - Date.now()) < SLACK_MS, 'MongoDB and this test share a clock');
  const closeTime = new Date(Date.now() + CLOSES_IN_MS);
  const plan = { examId: newExamId(), closeTime };
  const pairs = await crowd(scaled(6, 30), 6, async () => {
    const who = student();
    const before = Date.now();
    const { data, status } = await who.start(cluster.door(0), plan);
    const other = student();
    const second = await other.start(cluster.door(1), plan);
    for (const { attempt } of [data, second.data]) {
      const startedAt = new Date(attempt.startedAt).getTime();
      t.ok(startedAt > before - SLACK_MS && startedAt < Date.now() + SLACK_MS, 'started by MongoDB’s clock');
      t.equal(attempt.deadlineAt, closeTime.toISOString());
    }
    t.same([status, second.status], [201, 201]);
    return [
      { who, id: data.attempt.id, door: cluster.door(1) },
      { who: other, id: second.data.attempt.id, door: cluster.door(0) },
    ];
  });

  // Each attempt is saved to through the door that did not start it, until it is told that the time is over.
  const endings = await Promise.all(
    pairs.flat().map(async ({ who, id, door }) => {
      for (let n = 1; ; n++) {
        const sentAt = Date.now();
        const reply = await who.save(door, id, { questionId: 'q1', text: `${n}` });
        const word = reply.code ?? `${reply.status}`;
        if (word === '200') {
          t.ok(sentAt < closeTime.getTime(), 'nothing sent after the deadline is taken');
          continue;
        }
        t.ok(Date.now() >= closeTime.getTime(), 'nothing answered before the deadline is refused');
        return { word, id, saves: n - 1 };
      }
    }),
  );
  const words = tally(endings.map(({ word }) => word));
  t.same(Object.keys(words).filter((word) => !['ATTEMPT_DEADLINE_EXPIRED', 'ATTEMPT_LOCKED'].includes(word)), [], `${JSON.stringify(words)}`);
  for (const { id, saves } of endings) {
    const attempt = await until('it is graded', async () => {
      const found = await attempts(mongo).findOne({ _id: id, status: 'GRADED' });
      return found ?? false;
    });
    t.equal(attempt.submittedBy, 'TIMEOUT');
    t.equal(attempt.submittedAt?.getTime(), closeTime.getTime(), 'handed in at the deadline');
    t.equal(attempt.answers.q0?.serverVersion, saves, 'the accepted saves are all there');
    t.ok((attempt.answers.q0?.updatedAt.getTime() ?? 0) < closeTime.getTime());
  }
});

t.test('a close time that one door’s clock has passed and the other’s has not reached does not divide them', async (t) => {
  // Within ten minutes of now on both sides: a door that trusted its own clock would be wrong in one of the two.
  const open = { examId: newExamId(), closeTime: new Date(Date.now() + TEN_MINUTES / 4) };
  const closed = { examId: newExamId(), closeTime: new Date(Date.now() - TEN_MINUTES / 4) };
  for (const door of [cluster.door(0), cluster.door(1)]) {
    t.equal((await student().start(door, open)).status, 201);
    t.equal((await student().start(door, closed)).code, 'EXAM_CLOSED');
  }
});

t.test('workers whose clocks are wrong grade, announce and sweep at the right time', async (t) => {
  const closeTime = new Date(Date.now() + 1_500);
  const overdue = student();
  const left = await overdue.start(cluster.door(0), { examId: newExamId(), closeTime });
  const early = student();
  const kept = await early.start(cluster.door(1), { examId: newExamId() });
  const swept = await until('the sweep hands in what nobody did', async () => {
    const { data } = await readAsTeacher(cluster.door(), left.data.attempt.id);
    return data.status === 'GRADED' && data;
  });
  t.equal(swept.submittedBy, 'TIMEOUT');
  t.ok(Date.now() >= closeTime.getTime() + 1_000, 'not before the grace is over');
  t.equal((await early.read(cluster.door(), kept.data.attempt.id)).data.status, 'IN_PROGRESS');
  t.equal((await early.submit(cluster.door(), kept.data.attempt.id)).status, 200);
  await until('the notices arrive', () => neighbours.notices.has(`${kept.data.attempt.id}:notification:grade_released`));
});
