import t from 'tap';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { fanOuts, notifications } from '#infra/mongo/notification/collections.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { readConsistently } from '#infra/mongo/notification/inbox.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import { READER_GRACE_MS, STAGE_WITHIN_MS } from '#shared/notification/fan-out.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { sampleFanOut, stageOnly } from '#testing/stored/sample-fan-out.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

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
