import { readFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { markDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { ISOLATION_SLOT, takeSlot } from '#infra/mongo/mailbox/suspects.ts';
import { INDEXES } from '#infra/mongo/schema/indexes.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { expire, makeSuspect, workerRow } from '#testing/stored/stored-commands.ts';
import {
  OPERATOR,
  postNotices,
  refusedRun,
  retried,
  runAs,
  storeDeadGrading,
} from '#testing/stored/stored-dead-letters.ts';
import { postAnalytics } from '#testing/stored/stored-events.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { postRecurringCommands } from '#workers/worker-process.ts';
import { readStatus } from './cluster.ts';
import { CLUSTER_SAMPLES, coursesOf, readCourses, storeSample } from './samples.ts';

/** Opens a new database as a release leaves it. */
async function openMigrated(t: Test): Promise<TestMongo> {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  return mongo;
}

/** A live process of the actor, as it is `afterMs` from now. `queues`: those that it serves; default all. */
async function alive(mongo: TestMongo, actor: string, afterMs: number, queues?: string[]): Promise<void> {
  const seenAt = new Date(Date.now() + afterMs);
  const row = workerRow(actor, { seenAt, ...(queues === undefined ? {} : { queues }) });
  await mongo.db.collection<WorkerRow>(WORKERS).replaceOne({ _id: row._id }, row, { upsert: true });
}

/** Returns the kinds of the alarms and notes that an operator sees `afterMs` from now. */
async function toldOf(mongo: TestMongo, afterMs: number): Promise<string[]> {
  const { alarms, notes, well } = await readStatus(mongo, Date.now() + afterMs, async () => true);
  t.equal(well, alarms.length === 0);
  return [...alarms, ...notes].map(({ kind, about }) => `${kind} ${about}`).sort();
}

async function post(mongo: TestMongo): Promise<Command> {
  return postGrading(mongo, await storeAttempt(mongo, SUBMITTED));
}

/** Posts the sweeps of upkeep and returns one of them. */
async function postSweeps(mongo: TestMongo): Promise<Command> {
  await postRecurringCommands(mongo, makeActor('upkeep', testWorkerDeps(mongo)), Date.now() - SECOND);
  return (await mailboxOf(mongo, 'upkeep').findOne({})) as Command;
}

/** A way in which commands do not go on. */
interface Way {
  /** Stores such commands. */
  stand(mongo: TestMongo): Promise<unknown>;
  /** Time that passes until an operator reads the status. */
  afterMs: number;
  /** The actor whose process is alive, and the queues that it serves; default all. */
  live?: readonly [actor: string, queues?: string[]];
  /** The alarms and notes. */
  told: readonly string[];
}

/** Every way, by its words in the guide of operators. */
const WAYS: Readonly<Record<string, Way>> = {
  'due, and no worker of its type is alive': { stand: post, afterMs: SECOND, told: ['no-worker grading'] },
  'due, and no live worker claims it': {
    stand: post,
    afterMs: MINUTE + SECOND,
    live: ['grading'],
    told: ['backlog grading'],
  },
  'leased by a worker that was killed': {
    stand: async (mongo) => {
      const command = await post(mongo);
      await claimCommand(mongo, command, { workerId: 'killed', leaseMs: 10 * SECOND });
    },
    afterMs: 2 * MINUTE,
    live: ['grading'],
    told: ['backlog grading'],
  },
  'leased by a live worker whose run hangs': {
    stand: async (mongo) => {
      const command = await post(mongo);
      // The lease is renewed again and again, so it never expires.
      await claimCommand(mongo, command, { workerId: 'hanging', leaseMs: HOUR });
    },
    afterMs: 10 * MINUTE + SECOND,
    live: ['grading'],
    told: ['stalled-run grading'],
  },
  'held, because two runs did not end': {
    stand: async (mongo) => makeSuspect(mongo, await post(mongo)),
    afterMs: SECOND,
    live: ['grading'],
    told: ['suspect grading'],
  },
  'runs alone': {
    stand: async (mongo) => {
      const suspect = await makeSuspect(mongo, await post(mongo));
      const aloneUntil = await takeSlot(mongo, suspect, { workerId: 'alone', ms: MINUTE });
      if (aloneUntil === null) throw new Error('the slot is taken');
      await claimCommand(mongo, suspect, { workerId: 'alone', leaseMs: MINUTE, aloneUntil });
    },
    afterMs: SECOND,
    live: ['grading'],
    told: ['suspect grading'],
  },
  'backs off after failed attempts': {
    stand: async (mongo) => {
      const command = await post(mongo);
      await runAs(mongo, command, retried({ afterMs: HOUR }));
    },
    afterMs: 10 * MINUTE + SECOND,
    live: ['grading'],
    told: ['held-back grading'],
  },
  'waits unspent after an outage, or for a provider that is paused': {
    stand: async (mongo) => {
      const paused = { kind: 'snooze', afterMs: HOUR, error: new Error('the provider is paused') } as const;
      await runAs(mongo, await postDelivery(mongo, { channel: 'log' }), paused);
    },
    afterMs: 10 * MINUTE + SECOND,
    live: ['delivery', ['delivery:log']],
    told: ['held-back delivery:log'],
  },
  'waits unspent, because a service refuses token, sender or address': {
    stand: async (mongo) => {
      const [student, parent] = await postNotices(mongo);
      await runAs(mongo, student, refusedRun('notification', 401));
      await runAs(mongo, parent, refusedRun('profile', 403));
      await runAs(mongo, await postAccountNotice(mongo), refusedRun('notification', 404));
    },
    afterMs: 31 * SECOND,
    told: ['dependency-refuses notification', 'dependency-refuses notification', 'dependency-refuses profile'],
  },
  'waits unspent, because a service or a channel is not configured': {
    stand: (mongo) => postNotices(mongo),
    afterMs: HOUR,
    live: ['gradenotices', []],
    told: ['not-configured gradenotices:parent', 'not-configured gradenotices:student'],
  },
  'an event out that its receiver does not take': {
    stand: async (mongo) => runAs(mongo, await postAnalytics(mongo), retried({ afterMs: HOUR })),
    afterMs: 10 * MINUTE + SECOND,
    live: ['upkeep'],
    told: ['held-back-events upkeep:analytics'],
  },
  'an event out that a service refuses': {
    stand: async (mongo) =>
      runAs(mongo, await postAnalytics(mongo), { ...refusedRun('analytics', 405), kind: 'retry' }),
    afterMs: 31 * SECOND,
    live: ['upkeep'],
    told: ['dependency-refuses analytics'],
  },
  dead: { stand: storeDeadGrading, afterMs: SECOND, live: ['grading'], told: ['dead-letters grading'] },
  'a dead event out': {
    stand: async (mongo) =>
      runAs(mongo, await postAnalytics(mongo), { kind: 'dead', error: new Error('it is refused') }),
    afterMs: SECOND,
    live: ['upkeep'],
    told: ['dead-events upkeep:analytics'],
  },
  'a sweep that never runs': { stand: postSweeps, afterMs: 2 * MINUTE, live: ['upkeep'], told: ['backlog upkeep'] },
  'a sweep that fails at each turn': {
    stand: async (mongo) => {
      const sweep = await postSweeps(mongo);
      await mailboxOf(mongo, 'upkeep').deleteMany({ _id: { $ne: sweep._id } });
      for (let turn = 0; turn < 12; turn += 1) {
        await runAs(mongo, sweep, retried({ afterMs: HOUR }));
        if (turn < 11) await expire(mongo, sweep);
      }
    },
    afterMs: 10 * MINUTE + SECOND,
    live: ['upkeep'],
    told: ['held-back upkeep'],
  },
  'waits as planned: a release time ahead, the next turn of a sweep': {
    stand: async (mongo) => {
      await postNotices(mongo, new Date(Date.now() + 48 * HOUR));
      const sweep = await postSweeps(mongo);
      await mailboxOf(mongo, 'upkeep').deleteMany({ _id: { $ne: sweep._id } });
      await runAs(mongo, sweep, retried());
      await expire(mongo, sweep);
      await runAs(mongo, sweep, { kind: 'snooze', afterMs: HOUR });
    },
    afterMs: 20 * MINUTE,
    live: ['upkeep'],
    told: [],
  },
  'a dead letter that an operator has acknowledged': {
    stand: async (mongo) => markDead(mongo, await storeDeadGrading(mongo), 'ACKNOWLEDGED', { ...OPERATOR, now: 0 }),
    afterMs: SECOND,
    told: [],
  },
};

const shared = await openMigrated(t);

for (const [name, { stand, afterMs, live, told }] of Object.entries(WAYS)) {
  t.test(`an operator sees a command that does not go on: ${name}`, async (t) => {
    const mongo = shared;
    for (const collection of [...MAILBOXES, WORKERS, ISOLATION_SLOT])
      await mongo.db.collection(collection).deleteMany({});
    if (live !== undefined) await alive(mongo, live[0], afterMs, live[1]);
    t.strictSame(await toldOf(mongo, afterMs), [], 'an idle cluster');
    await stand(mongo);
    t.strictSame(await toldOf(mongo, afterMs), [...told]);
  });
}

t.test('the guide of operators lists every way in which a command does not go on, with its alarm or note', (t) => {
  const guide = readFileSync(path.resolve(import.meta.dirname, '../../../../docs/operating.md'), 'utf8');
  const [, section = ''] = /^### Commands that do not go on$([\s\S]*?)^### /m.exec(guide) ?? [];
  const rows = [...section.matchAll(/^\| ([^|]+?) +\| ([^|]+?) +\|/gm)].slice(2);
  const listed = new Map(rows.map(([, way = '', text = '']) => [way, text]));
  t.strictSame([...listed.keys()].sort(), Object.keys(WAYS).sort());
  for (const [way, { told }] of Object.entries(WAYS)) {
    const named = [...(listed.get(way) ?? '').matchAll(/`([a-z-]+)`/g)].map(([, kind]) => kind);
    const seen = new Set(told.map((one) => one.split(' ', 1)[0]));
    t.strictSame(named.sort(), [...seen].sort(), way);
  }
  t.end();
});

t.test('a notice that is refused stays an alarm without any process, and its delivery ends the alarm', async (t) => {
  const mongo = await openMigrated(t);
  const neighbours = await openNeighbours(t);
  neighbours.answer = () => ({ status: 401 });
  const [student, parent] = await postNotices(mongo);
  const actor = makeActor('gradenotices', testWorkerDeps(mongo, neighbours.env));
  for (const notice of [student, parent]) await runCommand(testKernel(mongo), actor, notice);
  const { alarms } = await readStatus(mongo, Date.now() + 31 * SECOND, async () => true);
  t.match(alarms, [
    { kind: 'dependency-refuses', about: 'notification', status: 401, commands: 1 },
    { kind: 'dependency-refuses', about: 'profile', status: 401, commands: 1, settings: ['INTERNAL_SERVICE_TOKEN'] },
  ]);
  neighbours.answer = null;
  for (const notice of [student, parent]) {
    await expire(mongo, notice);
    await runCommand(testKernel(mongo), actor, notice);
  }
  t.strictSame(await toldOf(mongo, HOUR), []);
  t.strictSame([...neighbours.notices.values()], [1, 1]);
});

t.test('no query of the status scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  // A connection that is open already is not watched.
  const { seen } = watchFilters(mongo);
  await migrate(mongo, () => undefined, { isProbed: true });
  for (let n = 0; n < 20; n += 1) await runAs(mongo, await post(mongo), retried());
  seen.clear();
  t.match(await toldOf(mongo, MINUTE), ['no-worker grading']);
  await noneScans(t, mongo, seen, 10);
});

t.test('of several front doors one stores the sample of a minute', async (t) => {
  const mongo = await openTestMongo(t);
  const now = Date.now();
  await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { runAt: now - 90_000 });
  const row = (_id: string, change: Partial<WorkerRow>) =>
    workerRow('grading', { _id, seenAt: new Date(now), ...change });
  await mongo.db
    .collection<WorkerRow>(WORKERS)
    .insertMany([
      row('a', { settled: { grading: 7 }, failed: { grading: 3 }, died: { grading: 1 } }),
      row('b', { settled: { grading: 5 }, died: { grading: 1 } }),
      row('killed', { seenAt: new Date(now - MINUTE), settled: { grading: 100 } }),
    ]);
  const stored = await Promise.all([storeSample(mongo, now), storeSample(mongo, now), storeSample(mongo, now)]);
  t.equal(stored.filter(Boolean).length, 1);
  t.notOk(await storeSample(mongo, now), 'again within the minute');
  t.equal(await mongo.db.collection(CLUSTER_SAMPLES).countDocuments({}), 1);
  const course = (await readCourses(mongo, now)).get('grading');
  const last = (name: 'due' | 'settled' | 'failed' | 'died') => course?.[name].at(-1);
  t.strictSame(
    { due: last('due'), settled: last('settled'), failed: last('failed'), died: last('died'), at: course?.due.length },
    { due: 1, settled: 12, failed: 3, died: 2, at: 60 },
  );
  t.ok((course?.oldestDueMs.at(-1) ?? 0) >= 90_000);
  t.ok(await storeSample(mongo, now + MINUTE), 'the next minute');
});

t.test('a minute without a sample has no value', async (t) => {
  const now = Date.UTC(2026, 4, 4, 3, 0, 20);
  const queue = (due: number) => [{ queue: 'grading', due, settled: 0, failed: 0, died: 0, oldestDueMs: 0 }];
  const at = (minutes: number) => new Date(now - minutes * MINUTE);
  const rows = [
    { _id: 'over', at: at(60), queues: queue(9) },
    { _id: 'first', at: at(59), queues: queue(1) },
    { _id: 'last', at: at(0), queues: queue(2) },
    { _id: 'ahead', at: at(-1), queues: queue(9) },
  ];
  const due = coursesOf(rows, now).get('grading')?.due ?? [];
  t.strictSame(due, [1, ...Array.from({ length: 58 }, () => null), 2]);
  t.equal(coursesOf([], now).size, 0);
});

t.test('samples expire after two hours', async (t) => {
  const index = INDEXES.find(({ collection }) => collection === CLUSTER_SAMPLES);
  t.match(index, { keys: { at: 1 }, options: { expireAfterSeconds: 7_200 } });
});
