import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { gradingOrder, OVERDUE_ATTEMPTS_SWEEP } from '#shared/attempt/commands.ts';
import { UNPAID_GENERATIONS_SWEEP } from '#shared/classifier/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { ORPHANED_FAN_OUTS_SWEEP } from '#shared/notification/commands.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { faultyMongo } from '#testing/stores/faulty-mongo.ts';
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
  const broken = faultyMongo(mongo, { method: 'insertOne', how: 'refused', times: 1_000 });
  const deps = testWorkerDeps({ ...mongo, ...broken.mongo });
  t.equal(await runCommand(testKernel(mongo), makeActor('upkeep', deps), sweep), 'failed');
  t.strictSame(
    deps.log.lines.filter(({ level }) => level === 'error'),
    [],
  );
  t.match(await sweepOf(mongo, sweep), { status: 'PENDING', attempts: 0 });
  t.equal(await attempts(mongo).countDocuments({ status: 'IN_PROGRESS' }), 3);
});
