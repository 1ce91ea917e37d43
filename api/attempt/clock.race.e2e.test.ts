import t from 'tap';
import { scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/call.ts';
import { doorsOf, readAsTeacher, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { closeExam, storedBy } from '#testing/stored/stored.ts';
import { until } from '#testing/until.ts';

const TEN_MINUTES = 600_000;
const HALF_AN_HOUR = 1_800_000;
const CLOSES_IN_MS = 1_000;
/** Allowed difference (ms) between MongoDB's time and this test's, and around the time at which a start reads it. */
const SLACK_MS = 30_000;

const cluster = await startCluster(t, {
  doors: 2,
  workers: ['grading', 'gradenotices', 'upkeep'],
  env: { ATTEMPT_OVERDUE_GRACE_SECONDS: '1', UPKEEP_INTERVAL_MS: '200' },
  skewMs: {
    web1: TEN_MINUTES / 2,
    web2: -TEN_MINUTES / 2,
    grading: TEN_MINUTES,
    gradenotices: -TEN_MINUTES,
    upkeep: TEN_MINUTES,
  },
});
const { neighbours } = cluster;
const door = doorsOf(cluster, 2);
const stored = storedBy(cluster);

/** Returns MongoDB's time (ms). The test checks that it is also the time of this machine. */
async function mongoNow(): Promise<number> {
  const hello = await cluster.mongo.admin().command({ hello: 1 });
  return hello.localTime.getTime();
}

t.test('doors whose clocks are ten minutes apart enforce the same deadline', async (t) => {
  const asked = Date.now();
  const told = await mongoNow();
  t.ok(told > asked - SLACK_MS && told < Date.now() + SLACK_MS, 'MongoDB and this test share a clock');
  const plan = { examId: newExamId(), closeTime: new Date(Date.now() + HALF_AN_HOUR) };
  const pairs = await crowd(scaled(6, 30), 6, async () => {
    const who = student();
    const before = Date.now();
    const { data, status } = await retryOn503(() => who.start(door(0), plan, who.id));
    const other = student();
    const second = await retryOn503(() => other.start(door(1), plan, other.id));
    for (const { attempt } of [data, second.data]) {
      const startedAt = new Date(attempt.startedAt).getTime();
      t.ok(startedAt > before - SLACK_MS && startedAt < Date.now() + SLACK_MS, 'started by MongoDB’s clock');
      t.equal(attempt.deadlineAt, plan.closeTime.toISOString());
    }
    t.ok([status, second.status].every((code) => code === 201 || code === 200));
    return [
      { who, id: data.attempt.id, at: door(1) },
      { who: other, id: second.data.attempt.id, at: door(0) },
    ];
  });

  const sat = pairs.flat();
  const closeTime = new Date(Date.now() + CLOSES_IN_MS);
  await closeExam(
    cluster.mongo,
    sat.map(({ id }) => id),
    closeTime,
  );
  // Saves to each attempt through the door that did not start it, until a reply reports that the time is over.
  const endings = await Promise.all(
    sat.map(async ({ who, id, at }) => {
      for (let n = 1; ; n++) {
        let sentAt = 0;
        const reply = await retryOn503(() => {
          sentAt = Date.now();
          return who.save(at, id, { questionId: 'q1', text: `${n}` });
        });
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
  t.same(
    Object.keys(words).filter((word) => !['ATTEMPT_DEADLINE_EXPIRED', 'ATTEMPT_LOCKED'].includes(word)),
    [],
    `${JSON.stringify(words)}`,
  );
  for (const { id, saves } of endings) {
    const attempt = await until('the attempt is graded', async () => {
      const found = await stored.attempts.findOne({ _id: id, status: 'GRADED' });
      return found;
    });
    t.equal(attempt.submittedBy, 'TIMEOUT');
    t.equal(attempt.submittedAt?.getTime(), closeTime.getTime(), 'submitted at the deadline');
    t.equal(attempt.answers.q0?.serverVersion ?? 0, saves, 'the accepted saves are all there');
    t.ok((attempt.answers.q0?.updatedAt.getTime() ?? 0) < closeTime.getTime());
  }
});

t.test(
  'doors agree on a close time that one door’s clock has passed and the other’s has not yet reached',
  async (t) => {
    // Both times are within ten minutes of now: a door that trusts its own clock is wrong about one of them.
    const open = { examId: newExamId(), closeTime: new Date(Date.now() + TEN_MINUTES / 4) };
    const closed = { examId: newExamId(), closeTime: new Date(Date.now() - TEN_MINUTES / 4) };
    for (const at of [door(0), door(1)]) {
      t.ok(await started(student(), at, open));
      t.equal((await retryOn503(() => student().start(at, closed))).code, 'EXAM_CLOSED');
    }
  },
);

t.test('workers with wrong clocks grade, notify and submit overdue attempts at the right time', async (t) => {
  const left = await started(student(), door(0), { examId: newExamId() });
  const early = student();
  const kept = await started(early, door(1), { examId: newExamId() });
  const closeTime = await closeExam(cluster.mongo, left, new Date(Date.now() + CLOSES_IN_MS));
  const swept = await until('the sweep submits the attempt', async () => {
    const { data } = await readAsTeacher(door(), left);
    return data?.status === 'GRADED' && data;
  });
  t.equal(swept.submittedBy, 'TIMEOUT');
  t.ok(Date.now() >= closeTime.getTime() + 1_000, 'not before the grace is over');
  t.equal((await retryOn503(() => early.read(door(), kept))).data.status, 'IN_PROGRESS');
  t.equal((await retryOn503(() => early.submit(door(), kept))).status, 200);
  await until('the notices arrive', () => neighbours.notices.has(`${kept}:notification:grade_released`));
});
