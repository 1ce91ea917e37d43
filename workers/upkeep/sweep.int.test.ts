import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { gradingOrder } from '#shared/attempt/commands.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

/** More than one chunk of a sweep. */
const STUCK = 51;

async function postSweep(mongo: TestMongo): Promise<string> {
  const about = { queue: 'upkeep', key: 'upkeep:test', subject: 'attempts', body: {} } as const;
  return (await postCommand(mongo, newCommand({ ...about, maxAttempts: 3, now: Date.now() - 1_000 }))).command._id;
}

const sweepOf = (mongo: TestMongo, id: string) => mailboxOf(mongo, 'upkeep').findOne({ _id: id });

t.test('attempts that cannot be handed in hold up nobody behind them', async (t) => {
  const mongo = await openTestMongo(t);
  const stuck: string[] = [];
  for (let n = 0; n < STUCK; n++) {
    // The longest overdue, and all at one instant, as a closing time makes them.
    const { _id } = await storeAttempt(mongo, { deadlineAt: new Date('2020-01-01T00:00:00Z') });
    stuck.push(_id);
    // What no attempt in progress has: its grading. The hand-in meets the unique key, each time.
    await postCommand(mongo, newCommand({ ...gradingOrder(_id), maxAttempts: 1, now: Date.now() }));
  }
  const sound = [];
  for (let n = 0; n < 3; n++) sound.push((await storeAttempt(mongo))._id);
  const id = await postSweep(mongo);
  const deps = testWorkerDeps(mongo);
  t.equal(await runCommand(testKernel(mongo), makeActor('upkeep', deps), 'upkeep', id), 'snoozed');

  const state = async (status: 'SUBMITTED' | 'IN_PROGRESS') =>
    (await attempts(mongo).find({ status }).toArray()).map(({ _id }) => _id).sort();
  t.strictSame(await state('SUBMITTED'), sound.sort());
  t.strictSame(await state('IN_PROGRESS'), stuck.toSorted());
  const told = deps.log.lines.filter(({ level }) => level === 'error');
  t.strictSame(told.map(({ fields }) => fields.attemptId).sort(), stuck.toSorted(), 'each is named, once');
  t.type(told[0]?.fields.err, Error);
  t.match(await sweepOf(mongo, id), { status: 'PENDING', attempts: 0 }, 'the sweep comes back, unspent');
});

t.test('with MongoDB away the sweep is put back, and blames no attempt', async (t) => {
  const mongo = await openTestMongo(t);
  for (let n = 0; n < 3; n++) await storeAttempt(mongo);
  const id = await postSweep(mongo);
  const broken = faultyMongo(mongo, { method: 'insertOne', how: 'refused', times: 1_000 });
  const deps = testWorkerDeps({ ...mongo, ...broken.mongo });
  t.equal(await runCommand(testKernel(mongo), makeActor('upkeep', deps), 'upkeep', id), 'snoozed');
  t.strictSame(
    deps.log.lines.filter(({ level }) => level === 'error'),
    [],
  );
  t.match(await sweepOf(mongo, id), { status: 'PENDING', attempts: 0 });
  t.equal(await attempts(mongo).countDocuments({ status: 'IN_PROGRESS' }), 3);
});
