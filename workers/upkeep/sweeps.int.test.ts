import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { closeOverdueSettlement, overdueSettlements } from '#infra/mongo/classifier/unpaid-generations.ts';
import { claimCommand } from '#infra/mongo/mailbox/claim.ts';
import { DELIVERIES, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import { mailboxOf, postCommand, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { fanOuts, notifications } from '#infra/mongo/notification/collections.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { readConsistently } from '#infra/mongo/notification/inbox.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { gradingOrder, OVERDUE_ATTEMPTS_SWEEP } from '#shared/attempt/commands.ts';
import { UNPAID_GENERATIONS_SWEEP } from '#shared/classifier/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { DAY, HOUR, MINUTE } from '#shared/kernel/time.ts';
import { ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import { READER_GRACE_MS, STAGE_WITHIN_MS } from '#shared/notification/fan-out.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { ageGeneration, expireGenerations, generationOf, postSettlement } from '#testing/stored/stored-model-work.ts';
import { sampleFanOut, stageOnly } from '#testing/stored/stored-notifications.ts';
import { faultyMongo, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { ERASURES_SWEEP } from './sweeps.ts';

/** More than one chunk of a sweep. */
const STUCK = 51;

async function postSweep(mongo: TestMongo): Promise<Command> {
  const about = { queue: 'upkeep', key: 'upkeep:test', subject: 'attempts', body: {} } as const;
  const wanted = newCommand({ ...about, maxAttempts: 3, now: Date.now() - 1_000 });
  return (await postCommand(mongo, wanted)).command;
}

const sweepOf = (mongo: TestMongo, { _id }: Command) => mailboxOf(mongo, 'upkeep').findOne({ _id });

t.test('attempts that cannot be submitted do not delay the attempts after them', async (t) => {
  const mongo = await openTestMongo(t);
  const stuck: string[] = [];
  for (let n = 0; n < STUCK; n++) {
    // These attempts are overdue the longest, and all by one instant, as after a common closing time.
    const attempt = await storeAttempt(mongo, { deadlineAt: new Date('2020-01-01T00:00:00Z') });
    stuck.push(attempt._id);
    // Store a grading command, which no attempt in progress has. Each submit then violates its unique key.
    await postCommand(mongo, newCommand({ ...gradingOrder(attempt), maxAttempts: 1, now: Date.now() }));
  }
  const sound = [];
  for (let n = 0; n < 3; n++) sound.push((await storeAttempt(mongo))._id);
  const sweep = await postSweep(mongo);
  const deps = testWorkerDeps(mongo);
  t.equal(await runCommand(testKernel(mongo), makeActor('upkeep', deps), sweep), 'snoozed');

  const state = async (status: 'SUBMITTED' | 'IN_PROGRESS') =>
    (await attempts(mongo).find({ status }).toArray()).map(({ _id }) => _id).sort();
  t.strictSame(await state('SUBMITTED'), sound.sort());
  t.strictSame(await state('IN_PROGRESS'), stuck.toSorted());
  const told = deps.log.lines.filter(({ level }) => level === 'error');
  t.strictSame(told.map(({ fields }) => fields.attemptId).sort(), stuck.toSorted(), 'each is named, once');
  t.type(told[0]?.fields.err, Error);
  t.match(await sweepOf(mongo, sweep), { status: 'PENDING', attempts: 0 }, 'the sweep comes back, unspent');
});

t.test('a disabled sweep is not posted, and one that was posted before submits nothing', async (t) => {
  const mongo = await openTestMongo(t);
  const { _id } = await storeAttempt(mongo, { deadlineAt: new Date('2020-01-01T00:00:00Z') });
  const off = makeActor('upkeep', testWorkerDeps(mongo, { ATTEMPT_OVERDUE_SWEEP_ENABLED: '0' }));
  const keysOf = ({ recurring = [] }: typeof off) => recurring.map(({ key }) => key);
  const others = [ORPHANED_FAN_OUTS_SWEEP.key, UNPAID_GENERATIONS_SWEEP.key, ERASURES_SWEEP.key];
  t.strictSame(keysOf(off), others, 'the other sweeps go on');
  const sweep = await postSweep(mongo);
  t.equal(await runCommand(testKernel(mongo), off, sweep), 'snoozed');
  t.match(await attempts(mongo).findOne({ _id }), { status: 'IN_PROGRESS' });
  t.match(await sweepOf(mongo, sweep), { status: 'PENDING', attempts: 0 });
  await mailboxOf(mongo, 'upkeep').updateOne({ _id: sweep._id }, { $set: { nextRunAt: new Date(0) } });
  const on = makeActor('upkeep', testWorkerDeps(mongo));
  t.strictSame(keysOf(on), [OVERDUE_ATTEMPTS_SWEEP.key, ...others]);
  t.equal(await runCommand(testKernel(mongo), on, sweep), 'snoozed');
  t.match(await attempts(mongo).findOne({ _id }), { status: 'SUBMITTED', submittedBy: 'TIMEOUT' });
});

t.test('the sweep is snoozed while MongoDB is unavailable, and blames no attempt', async (t) => {
  const mongo = await openTestMongo(t);
  for (let n = 0; n < 3; n++) await storeAttempt(mongo);
  const sweep = await postSweep(mongo);
  const broken = faultyMongo(mongo, { method: 'bulkWrite', how: 'refused', times: 1_000 });
  const deps = testWorkerDeps({ ...mongo, ...broken.mongo });
  t.equal(await runCommand(testKernel(mongo), makeActor('upkeep', deps), sweep), 'failed');
  t.strictSame(
    deps.log.lines.filter(({ level }) => level === 'error'),
    [],
  );
  t.match(await sweepOf(mongo, sweep), { status: 'PENDING', attempts: 0 });
  t.equal(await attempts(mongo).countDocuments({ status: 'IN_PROGRESS' }), 3);
});

/** Stores an unpaid generation whose day is over, and whose command no worker has claimed since. */
async function storeUnpaid(mongo: TestMongo, change: Partial<Pick<Command, 'nextRunAt' | 'replays'>> = {}) {
  const command = await postSettlement(mongo);
  await expireGenerations(mongo);
  await ageGeneration(mongo, command.subject);
  const old = { createdAt: new Date(Date.now() - DAY - HOUR), nextRunAt: new Date(Date.now() - DAY), ...change };
  await mailboxOf(mongo, 'settlement').updateOne({ _id: command._id }, { $set: old });
  return command;
}

/** Returns a settlement as the list of overdue ones names it. */
function overdueOf(settlement: Command) {
  const { _id, key, subject } = settlement;
  return { command: { _id, queue: 'settlement', key }, previewId: subject } as const;
}

/** Runs the sweep of unpaid generations once. Returns its result and the errors in its log. */
async function sweepUnpaid(mongo: TestMongo) {
  const deps = testWorkerDeps(mongo);
  const wanted = newCommand({ ...UNPAID_GENERATIONS_SWEEP, body: {}, maxAttempts: 3, now: Date.now() - 1_000 });
  const { command } = await postCommand(mongo, wanted);
  await mailboxOf(mongo, 'upkeep').updateOne({ _id: command._id }, { $set: { nextRunAt: new Date(0) } });
  const result = await runCommand(testKernel(mongo), makeActor('upkeep', deps), command);
  return { result, errors: deps.log.lines.filter(({ level }) => level === 'error') };
}

t.test('without a settlement worker, an answer that was never paid for becomes a dead letter', async (t) => {
  const mongo = await openTestMongo(t);
  const unpaid = await storeUnpaid(mongo);
  const young = await postSettlement(mongo);
  const { result, errors } = await sweepUnpaid(mongo);
  t.equal(result, 'snoozed');
  t.match(await readCommand(mongo, unpaid), {
    status: 'DEAD',
    settledAt: Date,
    lastError: { fingerprint: 'Unsettled', message: /24 hours/ },
  });
  t.match(await generationOf(mongo, unpaid), { state: 'PENDING', closed: 'EXPIRED', settledAt: null });
  t.match((await deadGroups(mongo)).groups, [{ queue: 'settlement', count: 1, example: unpaid._id }]);
  t.match(await readCommand(mongo, young), { status: 'PENDING' });
  t.match(errors, [{ fields: { commandId: unpaid._id, queue: 'settlement', subject: unpaid.subject } }]);
  t.strictSame((await sweepUnpaid(mongo)).errors, [], 'it is dead once');
});

t.test('a settlement that a process may still end is left alone', async (t) => {
  const mongo = await openTestMongo(t);
  const soon = await storeUnpaid(mongo, { nextRunAt: new Date(Date.now() + MINUTE) });
  const replayed = await storeUnpaid(mongo, { replays: 1 });
  const [early, claimed] = [await storeUnpaid(mongo), await storeUnpaid(mongo)];
  t.match(await claimCommand(mongo, claimed, { workerId: 'w-1', leaseMs: HOUR }), { kind: 'claimed' });
  const inAnHour = new Date(Date.now() + HOUR);
  await generations(mongo).updateOne({ _id: early.subject }, { $set: { replayUntil: inAnHour } });
  t.strictSame((await sweepUnpaid(mongo)).errors, []);
  for (const [name, command] of Object.entries({ soon, replayed, claimed, early })) {
    t.match(await readCommand(mongo, command), { status: 'PENDING' }, name);
    t.match(await generationOf(mongo, command), { state: 'PENDING', closed: null }, name);
  }
  // The list was read before a worker claimed the command.
  const overdue = overdueOf(claimed);
  t.equal(await closeOverdueSettlement(mongo, overdue), 'in use');
  t.match(await generationOf(mongo, claimed), { closed: null }, 'the transaction is aborted as a whole');
});

t.test('a settlement whose answer is paid for never becomes dead', async (t) => {
  const mongo = await openTestMongo(t);
  const unpaid = await storeUnpaid(mongo);
  const { subject } = unpaid;
  const paid = { state: 'SETTLED', settledAt: new Date(), usageConsumed: true } as const;
  await generations(mongo).updateOne({ _id: subject }, { $set: paid });
  t.strictSame((await sweepUnpaid(mongo)).errors, []);
  t.match(await readCommand(mongo, unpaid), { status: 'PENDING' }, 'the next run of it finds that');
  t.match(await generations(mongo).findOne({ _id: subject }), { state: 'SETTLED', closed: null });
});

for (const when of ['before', 'after'] as const) {
  t.test(`a worker killed ${when} any write of the sweep leaves both open or both closed`, async (t) => {
    const mongo = await openTestMongo(t);
    let died = 0;
    for (let point = 1; point < 10; point++) {
      const unpaid = await storeUnpaid(mongo);
      const victim = dyingProcess(mongo, point, when);
      const overdue = overdueOf(unpaid);
      await victim.live(() => closeOverdueSettlement(victim.mongo, overdue)).catch(() => undefined);
      const [row, command] = [await generationOf(mongo, unpaid), await readCommand(mongo, unpaid)];
      t.equal(row.closed === 'EXPIRED', command?.status === 'DEAD', `point ${point}, ${victim.diedAt()}`);
      await closeOverdueSettlement(mongo, overdue);
      t.match(await readCommand(mongo, unpaid), { status: 'DEAD' });
      if (victim.diedAt() === null) break;
      died += 1;
    }
    t.ok(died >= 2, `died at ${died} points`);
  });
}

t.test('a sweep reads a bounded list, and what waits longest comes first', async (t) => {
  const mongo = await openTestMongo(t);
  const ages = [2 * DAY, 4 * DAY, 3 * DAY];
  const ids = [];
  for (const age of ages) ids.push((await storeUnpaid(mongo, { nextRunAt: new Date(Date.now() - age) }))._id);
  const listed = await overdueSettlements(mongo, Date.now(), 2);
  t.strictSame(
    listed.map(({ command }) => command._id),
    [ids[1], ids[2]],
  );
});

const ROWS = 25;
const WEBHOOK = {
  NOTIFICATION_CHANNELS: 'log,webhook',
  NOTIFICATION_WEBHOOK_URL: 'http://127.0.0.1:1/',
  NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
};

const counted = (mongo: TestMongo) =>
  readConsistently(mongo, (place) => notifications(mongo).countDocuments({ place }));
const moved = (mongo: TestMongo) => notifications(mongo).countDocuments({ place: 'INBOX' });

t.test(
  'a published fan-out queues its deliveries, then moves its rows after a wait, and is deleted after another wait',
  async (t) => {
    const mongo = await openTestMongo(t);
    const fanOut = sampleFanOut({ rows: ROWS, rowsAtOnce: 10 });
    await insertFanOut(mongo, fanOut);
    const [gone] = fanOut.rows;
    await notifications(mongo).updateOne({ _id: gone?._id ?? '' }, { $set: { place: 'DELETED' } });
    const start = Date.now();

    /** Runs the command as a worker would, `ms` after the publication. */
    async function runAt(ms: number) {
      await mailboxOf(mongo, 'upkeep:fanouts').updateOne(
        { _id: fanOut.finish._id },
        { $set: { nextRunAt: new Date(0) } },
      );
      const deps = { ...testWorkerDeps(mongo, WEBHOOK), now: () => start + ms };
      return runCommand(testKernel(mongo), makeActor('upkeep', deps), fanOut.finish);
    }

    t.equal(await runAt(0), 'snoozed');
    t.equal(
      await mongo.db.collection(DELIVERIES).countDocuments({}),
      2 * (ROWS - 1),
      'jobs at once, none for a deleted row',
    );
    t.equal(await moved(mongo), 0, 'no row moves while a reader may hold a list without the fan-out');
    t.equal(await counted(mongo), ROWS - 1, 'readers see them all the same');
    t.equal(await runAt(READER_GRACE_MS / 2), 'snoozed');
    t.equal(await moved(mongo), 0);

    t.equal(await runAt(READER_GRACE_MS + 5_000), 'snoozed');
    t.equal(await moved(mongo), ROWS - 1);
    t.equal(await fanOuts(mongo).countDocuments({}), 1, 'the fan-out remains for readers that began before');
    t.equal(await counted(mongo), ROWS - 1);
    t.equal(await runAt(READER_GRACE_MS + 10_000), 'snoozed');

    t.equal(await runAt(2 * READER_GRACE_MS + 20_000), 'done');
    t.equal(await fanOuts(mongo).countDocuments({}), 0);
    t.equal(await counted(mongo), ROWS - 1);
    t.equal(await notifications(mongo).countDocuments({ place: 'DELETED' }), 1, 'a deleted notification stays deleted');
    t.equal(await mongo.db.collection(DELIVERIES).countDocuments({}), 2 * (ROWS - 1), 'no delivery job was made twice');
  },
);

t.test('a row that changed its shard during the move, so that the update left it out, reaches its inbox', async (t) => {
  const mongo = await openTestMongo(t);
  const fanOut = sampleFanOut({ rows: ROWS, rowsAtOnce: 10 });
  await insertFanOut(mongo, fanOut);
  await mailboxOf(mongo, 'upkeep:fanouts').updateOne(
    { _id: fanOut.finish._id },
    { $set: { progress: { phase: 'rows', after: -1 } } },
  );
  const left = fanOut.rows[3];
  let updates = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'updateMany' || collection !== notifications(mongo).collectionName) return undefined;
    return (filter, ...rest) => {
      updates += 1;
      return method(updates === 1 ? { ...(filter as object), _id: { $ne: left?._id } } : filter, ...rest);
    };
  });
  const deps = { ...testWorkerDeps({ ...mongo, db }), now: () => Date.now() + READER_GRACE_MS + 5_000 };
  t.equal(await runCommand(testKernel({ ...mongo, db }), makeActor('upkeep', deps), fanOut.finish), 'snoozed');
  t.equal(await moved(mongo), ROWS);
  t.equal(updates, 2, 'a second update, and no further one');
});

t.test(
  'an erasure between the read of a chunk and its deliveries leaves no delivery to the erased person',
  async (t) => {
    const mongo = await openTestMongo(t);
    const fanOut = sampleFanOut({ rows: ROWS, rowsAtOnce: 10 });
    await insertFanOut(mongo, fanOut);
    const [row] = fanOut.rows;
    const erased = row?.userId ?? '';
    let erasures = 0;
    const db = tappedDb(mongo, (method, name, collection) => {
      if (!name.startsWith('insert') || collection !== DELIVERIES) return undefined;
      return async (...args) => {
        erasures += 1;
        if (erasures === 1) await erasePerson(mongo, erased, { operator: 'an', reason: 'a test', now: Date.now() });
        return method(...args);
      };
    });
    const deps = testWorkerDeps({ ...mongo, db }, WEBHOOK);
    t.equal(await runCommand(testKernel({ ...mongo, db }), makeActor('upkeep', deps), fanOut.finish), 'snoozed');
    t.ok(erasures > 0);
    const left = await mongo.db.collection(DELIVERIES).find().toArray();
    t.equal(left.length, 2 * (ROWS - 1), 'the others get theirs');
    t.notOk(JSON.stringify(left).includes(erased));
  },
);

t.test('the sweep deletes the rows of a front door that never published, and no others', async (t) => {
  const mongo = await openTestMongo(t);
  const [lost, young] = [sampleFanOut({ rows: ROWS, rowsAtOnce: 10 }), sampleFanOut({ rows: ROWS, rowsAtOnce: 10 })];
  await stageOnly(mongo, { ...lost, now: Date.now() - STAGE_WITHIN_MS - 60_000 });
  await stageOnly(mongo, { ...young, now: Date.now() - STAGE_WITHIN_MS - 1_000 });
  await insertFanOut(mongo, sampleFanOut({ rows: ROWS, rowsAtOnce: 10 }));
  await insertFanOut(mongo, sampleFanOut({ rows: 3 }));
  const command = {
    ...sampleFanOut({ rows: 0 }).finish,
    queue: 'upkeep' as const,
    progress: null,
    result: null,
    subject: ORPHANED_FAN_OUTS_SWEEP.subject,
    nextRunAt: new Date(0),
  };
  await mailboxOf(mongo, 'upkeep').insertOne(command);
  const result = await runCommand(testKernel(mongo), makeActor('upkeep', testWorkerDeps(mongo)), command);
  t.equal(result, 'snoozed', 'the sweep is snoozed');
  t.equal(await notifications(mongo).countDocuments({ fanOutId: lost.fanOutId }), 0);
  t.equal(
    await notifications(mongo).countDocuments({ fanOutId: young.fanOutId }),
    ROWS,
    'a front door may still publish a young fan-out',
  );
  t.equal(await counted(mongo), ROWS + 3);
  t.equal(await fanOuts(mongo).countDocuments({}), 2);
});
